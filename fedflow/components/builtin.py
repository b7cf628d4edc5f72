"""The components that come with fedflow, in the order in which a pipeline uses them."""

from __future__ import annotations

from typing import Any, Final

from fedflow.components.empty import Empty
from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.components.features.data_transform import DataTransform
from fedflow.components.io.reader import Reader
from fedflow.components.io.upload import Upload
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.psi.intersection import Intersection

COMPONENTS: Final[tuple[type[Any], ...]] = (
    Upload,
    Reader,
    DataTransform,
    Intersection,
    HeteroLR,
    Evaluation,
    Empty,
)
