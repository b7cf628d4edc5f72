"""What the author of a component imports. The only package whose modules re-export names."""

from fedflow.domain.site import Role, Site
from fedflow.sdk.component import ComponentSpec, component, spec_of
from fedflow.sdk.context import Checkpoints, Context, Federation, Inputs, Step, Tracker
from fedflow.sdk.errors import (
    BadData,
    BadParameter,
    ComponentFailed,
    Diverged,
    FedflowError,
    NoCommonIds,
    NotSupportedYet,
    PeerFailed,
)
from fedflow.sdk.outputs import Cache, Model, Outputs
from fedflow.sdk.params import Params, PlannedRun, check_params
from fedflow.sdk.table import Table, TableKind, TableSchema, TableStore, TableWriter
from fedflow.sdk.workers import PlacedRows, Workers

__all__ = [
    "BadData",
    "BadParameter",
    "Cache",
    "Checkpoints",
    "ComponentFailed",
    "ComponentSpec",
    "Context",
    "Diverged",
    "Federation",
    "FedflowError",
    "Inputs",
    "Model",
    "NoCommonIds",
    "NotSupportedYet",
    "Outputs",
    "Params",
    "PeerFailed",
    "PlacedRows",
    "PlannedRun",
    "Role",
    "Site",
    "Step",
    "Table",
    "TableKind",
    "TableSchema",
    "TableStore",
    "TableWriter",
    "Tracker",
    "Workers",
    "check_params",
    "component",
    "spec_of",
]
