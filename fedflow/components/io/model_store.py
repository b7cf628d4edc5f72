"""ModelStore and ModelRestore: models to and from the external store, asked of the own server."""

from __future__ import annotations

from fedflow.sdk import Context, NotSupportedYet, Outputs, Params, component
from fedflow.sdk.context import ModelStore as Access


class ModelStoreParams(Params, frozen=True, kw_only=True):
    """Which model, and whether an older copy of it is replaced."""

    role: str  #: of the site whose share is meant
    party_id: str  #: of the site whose share is meant
    model_id: str  #: of the model
    model_version: str  #: of the model
    force_update: bool = False  #: replace another copy in the external store


class ModelRestoreParams(Params, frozen=True, kw_only=True):
    """Which model."""

    role: str  #: of the site whose share is meant
    party_id: str  #: of the site whose share is meant
    model_id: str  #: of the model
    model_version: str  #: of the model
    sha256: str | None = None  #: refuse a copy with another digest


@component(
    "ModelStore", roles=("local",), params=ModelStoreParams, data_ports=(), needs_input=False,
    outputs=(), repeatable=False,
)  # fmt: skip
class ModelStore:
    """Copies a model to the external model store.

    Runs through `model/store` only. The copy is an archive as `model/export` makes it.
    """

    def run(self, ctx: Context) -> Outputs:
        """Let the server copy the model. Raises: ServerRefused: with its reason."""
        return Outputs(summary=dict(_access(ctx).store()))


@component(
    "ModelRestore", roles=("local",), params=ModelRestoreParams, data_ports=(), needs_input=False,
    outputs=(), repeatable=False,
)  # fmt: skip
class ModelRestore:
    """Brings a model back from the external model store.

    Runs through `model/restore` only. A model that is here already stays as it is.
    """

    def run(self, ctx: Context) -> Outputs:
        """Let the server fetch the model. Raises: ServerRefused: with its reason."""
        return Outputs(summary=dict(_access(ctx).restore()))


def _access(ctx: Context) -> Access:
    if ctx.model_store is None:
        raise NotSupportedYet(what="The external model store outside of a server")
    return ctx.model_store
