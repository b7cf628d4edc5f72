"""Models: what a version was made with, its tags, and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from fedflow.wire.api import PartyNumber, prefixed


class ComponentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A component of a DSL; `index` is its depth."""

    component_name: str
    module: str = ""
    index: int = 0


class ModelVersion(msgspec.Struct, frozen=True, kw_only=True, rename=prefixed):
    """A MODEL record: one site's share of one version. Columns that nobody asked for are left out.

    Source: `docs/reference/rest.md#records`.
    """

    SHOWN: ClassVar = (
        "model_id model_version role party_id roles parent parent_info size imported create_time"
    )

    role: str = ""
    party_id: str = ""
    roles: Mapping[str, Sequence[PartyNumber]] = {}
    job_id: str = ""
    model_id: str = ""
    model_version: str = ""
    size: int | None = None  #: KiB
    initiator_role: str = ""
    initiator_party_id: str = ""
    runtime_conf: Any = {}
    train_dsl: Any = None
    train_runtime_conf: Any = None
    runtime_conf_on_party: Any = None
    inference_dsl: Any = None
    fate_version: str = ""
    parent: bool | None = None  #: False: a deploy made it from another version
    parent_info: Mapping[str, Any] | None = None
    loaded_times: int = 0
    imported: int | None = None
    archive_sha256: str | None = None
    archive_from_ip: str | None = None
    create_time: int | None = None  #: milliseconds since the epoch, as is the next
    create_date: str | None = None
    update_time: int | None = None
    update_date: str | None = None

    @property
    def is_deployed(self) -> bool:
        """Tell whether predict jobs may use this version."""
        return self.parent is False

    def __repr__(self) -> str:
        return f"<Model {self.model_id} {self.model_version} at {self.role} {self.party_id}>"


class ModelDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What a version was trained with, and what it predicts with."""

    runtime_conf: Mapping[str, Any] = msgspec.field(default_factory=dict)
    dsl: Mapping[str, Any] = msgspec.field(default_factory=dict)
    inference_dsl: Mapping[str, Any] | None = None
    component_info: tuple[ComponentInfo, ...] = ()
    inference_component_info: tuple[ComponentInfo, ...] = ()

    def __repr__(self) -> str:
        return f"<ModelDetail of {len(self.component_info)} components>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        rows = [(c.index, c.component_name, c.module) for c in self.component_info]
        return html.table(("depth", "component", "module"), rows)


class NewVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version that a deploy or a migration made at all its sites."""

    SHOWN: ClassVar = "model_id model_version detail"

    detail: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """Role -> party id -> what the site said: its `retcode` and `retmsg`."""
    guest: Mapping[str, int] | None = None  #: party id -> retcode; so are the next two
    host: Mapping[str, int] | None = None
    arbiter: Mapping[str, int] | None = None
    model_id: str
    model_version: str

    def __repr__(self) -> str:
        return f"<Model {self.model_id} {self.model_version}>"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A site's part of a version that is here now."""

    job_id: str
    role: str
    party_id: str
    model_id: str
    model_version: str


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """A model archive on the server's machine."""

    party_model_id: str
    model_version: str
    path: str
    hash: str  #: sha256


class Tag(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A name that people give to versions."""

    name: str
    description: str
    model_count: int | None = None  #: how many versions have it, where that is asked for

    def __repr__(self) -> str:
        return f"<Tag {self.name}>"


class TaggedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A share of a version that has a tag."""

    model_id: str
    model_version: str
    model_size: int = 0  #: KiB
    role: str
    party_id: str


class Tags(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tags, or the models of one tag."""

    tags: tuple[Tag, ...] | None = None
    models: tuple[TaggedModel, ...] | None = None
    count: int | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a component's model after a step of its training."""

    step_index: int
    step_name: str = ""
    create_time: str = ""  #: UTC
    models: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Digests of the parts by name; of a single checkpoint their contents as base64 text."""

    def __repr__(self) -> str:
        return f"<Checkpoint {self.step_index} {self.step_name}>"
