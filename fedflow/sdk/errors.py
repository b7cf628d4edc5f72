"""Errors that components raise or handle. All are `FedflowError`s with a message and a hint."""

from fedflow.base.errors.components import (
    BadParameter,
    ComponentFailed,
    DishonestParty,
    Diverged,
    ExtraMissing,
    NoCommonIds,
    NotEncodable,
    RefusedByAggregator,
    RoundsFailed,
    TooFewInRound,
    TooFewMembers,
    UnknownComponent,
)
from fedflow.base.errors.data import BadData, TableNotFound
from fedflow.base.errors.data_plane import (
    CodecError,
    DuplicateValue,
    GroupDiffers,
    NothingSent,
    NotSendable,
    PeerFailed,
    UndeclaredMessage,
    ValueTooLate,
)
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.models import CheckpointNotFound
from fedflow.base.errors.requests import NotSupportedYet

__all__ = [
    "BadData",
    "BadParameter",
    "CheckpointNotFound",
    "CodecError",
    "ComponentFailed",
    "DishonestParty",
    "Diverged",
    "DuplicateValue",
    "ExtraMissing",
    "FedflowError",
    "GroupDiffers",
    "NoCommonIds",
    "NotEncodable",
    "NotSendable",
    "NotSupportedYet",
    "NothingSent",
    "PeerFailed",
    "RefusedByAggregator",
    "RoundsFailed",
    "TableNotFound",
    "TooFewInRound",
    "TooFewMembers",
    "UndeclaredMessage",
    "UnknownComponent",
    "ValueTooLate",
]
