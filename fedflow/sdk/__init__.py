"""What the author of a component imports. The only package whose modules re-export names."""

from fedflow.domain.arrivals import Arrival, Departure
from fedflow.domain.site import Role, Site
from fedflow.sdk.component import ComponentSpec, component, spec_of
from fedflow.sdk.context import (
    Checkpoints,
    Context,
    Federation,
    Inputs,
    Step,
    Tracker,
    Value,
)
from fedflow.sdk.errors import (
    BadData,
    BadParameter,
    CheckpointNotFound,
    CodecError,
    ComponentFailed,
    Diverged,
    DuplicateValue,
    FedflowError,
    NoCommonIds,
    NotEncodable,
    NotSendable,
    NotSupportedYet,
    PeerFailed,
    TableNotFound,
    ValueTooLate,
)
from fedflow.sdk.outputs import Cache, Model, Outputs
from fedflow.sdk.params import Doubt, Params, PlannedRun, check_params
from fedflow.sdk.table import Table, TableKind, TableSchema, TableStore, TableWriter
from fedflow.sdk.workers import BlockWork, PlacedRows, Progress, Rows, Workers

__all__ = [
    "Arrival",
    "BadData",
    "BadParameter",
    "BlockWork",
    "Cache",
    "CheckpointNotFound",
    "Checkpoints",
    "CodecError",
    "ComponentFailed",
    "ComponentSpec",
    "Context",
    "Departure",
    "Diverged",
    "Doubt",
    "DuplicateValue",
    "Federation",
    "FedflowError",
    "Inputs",
    "Model",
    "NoCommonIds",
    "NotEncodable",
    "NotSendable",
    "NotSupportedYet",
    "Outputs",
    "Params",
    "PeerFailed",
    "PlacedRows",
    "PlannedRun",
    "Progress",
    "Role",
    "Rows",
    "Site",
    "Step",
    "Table",
    "TableKind",
    "TableNotFound",
    "TableSchema",
    "TableStore",
    "TableWriter",
    "Tracker",
    "Value",
    "ValueTooLate",
    "Workers",
    "check_params",
    "component",
    "spec_of",
]
