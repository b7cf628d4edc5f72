"""The components that come with fedflow, in the order in which a pipeline uses them."""

from __future__ import annotations

from typing import Any, Final

from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.components.empty import Empty
from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.components.features.column_expand import ColumnExpand
from fedflow.components.features.data_transform import DataIO, DataTransform
from fedflow.components.features.imputation import FeatureImputation
from fedflow.components.features.label_transform import LabelTransform
from fedflow.components.features.one_hot import OneHotEncoder
from fedflow.components.features.sample_weight import SampleWeight
from fedflow.components.features.scale import FeatureScale
from fedflow.components.features.union import Union
from fedflow.components.intersection.intersection import Intersection
from fedflow.components.io.cache_loader import CacheLoader
from fedflow.components.io.download import Download
from fedflow.components.io.model_loader import ModelLoader
from fedflow.components.io.model_store import ModelRestore, ModelStore
from fedflow.components.io.reader import Reader
from fedflow.components.io.upload import Upload
from fedflow.components.io.writer import Writer
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.linear.hetero_poisson import HeteroPoisson
from fedflow.components.local.local_baseline import LocalBaseline
from fedflow.components.pearson.hetero_pearson import HeteroPearson
from fedflow.components.retrieval.secure_information_retrieval import SecureInformationRetrieval
from fedflow.components.sampling.data_split import HeteroDataSplit, HomoDataSplit
from fedflow.components.sampling.federated_sample import FederatedSample
from fedflow.components.scoring.positive_unlabeled import PositiveUnlabeled
from fedflow.components.scoring.scorecard import Scorecard
from fedflow.components.selection.hetero_feature_selection import HeteroFeatureSelection
from fedflow.components.sshe.component import HeteroSSHELinR, HeteroSSHELR
from fedflow.components.stability.population import PSI
from fedflow.components.statistics.data_statistics import DataStatistics
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
    ColumnExpand,
    DataTransform,
    Intersection,
    Union,
    FederatedSample,
    HeteroDataSplit,
    HomoDataSplit,
    SampleWeight,
    LabelTransform,
    FeatureImputation,
    FeatureScale,
    DataStatistics,
    HeteroFeatureBinning,
    OneHotEncoder,
    PSI,
    HeteroPearson,
    HeteroFeatureSelection,
    HeteroLR,
    HeteroLinR,
    HeteroPoisson,
    HeteroSSHELR,
    HeteroSSHELinR,
    LocalBaseline,
    PositiveUnlabeled,
    Scorecard,
    SecureInformationRetrieval,
    Evaluation,
    Empty,
    SecureAddExample,
    DataIO,
)
