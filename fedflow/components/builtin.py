"""The components that come with fedflow, in the order in which a pipeline uses them."""

from __future__ import annotations

from typing import Any, Final

from fedflow.components.empty import Empty
from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.components.features.data_transform import DataIO, DataTransform
from fedflow.components.io.cache_loader import CacheLoader
from fedflow.components.io.download import Download
from fedflow.components.io.model_loader import ModelLoader
from fedflow.components.io.model_store import ModelRestore, ModelStore
from fedflow.components.io.reader import Reader
from fedflow.components.io.upload import Upload
from fedflow.components.io.writer import Writer
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.psi.intersection import Intersection
from fedflow.components.toy.secure_add_example import SecureAddExample

COMPONENTS: Final[tuple[type[Any], ...]] = (
    Upload,
    Download,
    Writer,
    Reader,
    ModelLoader,
    CacheLoader,
    ModelStore,
    ModelRestore,
    DataTransform,
    Intersection,
    HeteroLR,
    Evaluation,
    Empty,
    SecureAddExample,
    DataIO,
)
