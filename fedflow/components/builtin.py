"""The components that come with fedflow, in the order in which a pipeline uses them.

They are only named here, as `module:class` below `fedflow.components`; a class has the name of its
component. A zygote imports one when a job first asks for it: all of them take 6 MiB and 0.2 s.
"""

from __future__ import annotations

from typing import Final

COMPONENTS: Final[tuple[str, ...]] = (
    "io.upload:Upload",
    "io.download:Download",
    "io.writer:Writer",
    "io.reader:Reader",
    "io.model_loader:ModelLoader",
    "io.cache_loader:CacheLoader",
    "io.model_store:ModelStore",
    "io.model_store:ModelRestore",
    "features.column_expand:ColumnExpand",
    "features.data_transform:DataTransform",
    "intersection.intersection:Intersection",
    "features.union:Union",
    "sampling.federated_sample:FederatedSample",
    "sampling.data_split:HeteroDataSplit",
    "sampling.data_split:HomoDataSplit",
    "features.sample_weight:SampleWeight",
    "features.label_transform:LabelTransform",
    "features.imputation:FeatureImputation",
    "features.scale:FeatureScale",
    "statistics.data_statistics:DataStatistics",
    "binning.feature_binning:HeteroFeatureBinning",
    "binning.homo_feature_binning:HomoFeatureBinning",
    "features.one_hot:OneHotEncoder",
    "features.homo_one_hot:HomoOneHotEncoder",
    "stability.population:PSI",
    "pearson.hetero_pearson:HeteroPearson",
    "selection.hetero_feature_selection:HeteroFeatureSelection",
    "linear.hetero_lr:HeteroLR",
    "linear.hetero_linr:HeteroLinR",
    "linear.hetero_poisson:HeteroPoisson",
    "sshe.component:HeteroSSHELR",
    "sshe.component:HeteroSSHELinR",
    "boosting.hetero_secureboost:HeteroSecureBoost",
    "boosting.hetero_secureboost:HeteroFastSecureBoost",
    "boosting.leaf_features:SBTFeatureTransformer",
    "horizontal.homo_lr:HomoLR",
    "clustering.hetero_kmeans:HeteroKmeans",
    "nn.homo_nn:HomoNN",
    "local.local_baseline:LocalBaseline",
    "scoring.positive_unlabeled:PositiveUnlabeled",
    "scoring.scorecard:Scorecard",
    "retrieval.secure_information_retrieval:SecureInformationRetrieval",
    "evaluation.evaluation:Evaluation",
    "empty:Empty",
    "toy.secure_add_example:SecureAddExample",
    "verifiable.feldman_verifiable_sum:FeldmanVerifiableSum",
    "features.data_transform:DataIO",
)
