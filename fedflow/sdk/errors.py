"""Errors that components raise or handle; docs/errors.md lists all of them."""

from fedflow.base.errors.components import (
    BadParameter,
    ComponentFailed,
    Diverged,
    NoCommonIds,
    NotEncodable,
    UnknownComponent,
)
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError, PeerFailed
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import NotSupportedYet

__all__ = [
    "BadData",
    "BadParameter",
    "CodecError",
    "ComponentFailed",
    "Diverged",
    "FedflowError",
    "NoCommonIds",
    "NotEncodable",
    "NotSupportedYet",
    "PeerFailed",
    "UnknownComponent",
]
