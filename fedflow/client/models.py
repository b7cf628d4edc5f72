"""`client.models`, `client.tags`, `client.checkpoints`: what was trained, and what it is called."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fedflow.base.errors.requests import BadDocument
from fedflow.client.connection import Connection
from fedflow.client.created_jobs import make_job, submit_job
from fedflow.client.documents import Document, read_document
from fedflow.client.downloads import keep, named_in
from fedflow.client.multipart import MultipartFile
from fedflow.domain.site import Role, Site
from fedflow.wire.api.jobs import Submitted
from fedflow.wire.api.models import (
    Archive,
    Checkpoint,
    ModelDetail,
    ModelVersion,
    NewVersion,
    Tag,
    TaggedModel,
    Tags,
)

_COLUMNS: Final = (
    "model_id", "model_version", "role", "party_id", "roles", "parent", "parent_info", "size",
    "imported", "create_time",
)  # fmt: skip


class ModelCalls:
    """Models: look, deploy, move."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(
        self, *, model_id: str | None = None, version: str | None = None, site: Site | None = None
    ) -> list[ModelVersion]:
        """Return the shares of models at this server that fit, newest first.

        A server lists by what it is asked for; without any filter all roles are asked for.
        """
        body: dict[str, Any] = {"query_filters": list(_COLUMNS)}
        if model_id is not None:
            body["model_id"] = model_id
        if version is not None:
            body["model_version"] = version
        if site is not None:
            body.update(role=site.role.value, party_id=site.party_id)
        if len(body) == 1:
            body["role"] = [role.value for role in Role]
        found: list[ModelVersion] = self._connection.find("model/query", body, ModelVersion)
        return found

    def detail(self, model_id: str, version: str) -> ModelDetail:
        """Return DSLs, conf and components of a version. Raises: ModelNotFound."""
        found: ModelDetail = self._connection.look_up(
            "model/query/detail", _version(model_id, version), ModelDetail
        )
        return found

    def deploy(
        self,
        model_id: str,
        version: str,
        *,
        components: Iterable[str] | None = None,
        predict_dsl: Document | None = None,
        checkpoints: Mapping[str, int | str] | None = None,
    ) -> NewVersion:
        """Make a version that predict jobs can use, at all its sites or at none.

        `components` stay in the predict DSL (without it and `predict_dsl`, all). `checkpoints`:
        component -> index or name of the step whose model is taken. Raises: ModelNotFound,
        ModelChangeRefused.
        """
        body: dict[str, Any] = _version(model_id, version)
        if components is not None:
            body["cpn_list"] = list(components)
        if predict_dsl is not None:
            body["predict_dsl"] = read_document(predict_dsl)
        body["components_checkpoint"] = {
            name: {"step_index" if isinstance(step, int) else "step_name": step}
            for name, step in (checkpoints or {}).items()
        }
        found: NewVersion = self._connection.do("model/deploy", body, NewVersion)
        return found

    def predict_dsl(self, model_id: str, version: str) -> dict[str, Any]:
        """Return the predict DSL of a deployed version. Raises: NoPredictDsl."""
        found: dict[str, Any] = self._connection.look_up(
            "model/get/predict/dsl", _version(model_id, version), dict[str, Any]
        )
        return found

    def predict_conf(self, model_id: str, version: str) -> dict[str, Any]:
        """Return a conf to predict with, whose tables are to be filled in. Raises: NoPredictDsl."""
        found: dict[str, Any] = self._connection.look_up(
            "model/get/predict/conf", _version(model_id, version), dict[str, Any]
        )
        return found

    def predict(
        self,
        model_id: str,
        version: str,
        tables: Mapping[str | tuple[str, int | str], tuple[str, str]],
        *,
        job_parameters: Mapping[str, Any] | None = None,
    ) -> Submitted:
        """Submit a predict job with a deployed version.

        `tables`: a role, or (role, party id) -> (namespace, name) of the table that its Reader
        reads. `job_parameters` are laid over the common ones. Raises: NoPredictDsl;
        BadDocument: a role without a reader is named, or one with a reader is not.
        """
        conf = filled_conf(self.predict_conf(model_id, version), tables)
        common = conf.setdefault("job_parameters", {}).setdefault("common", {})
        common.update(job_parameters or {})
        return submit_job(self._connection, {}, conf)

    def export(self, model_id: str, version: str, site: Site, target: Path) -> Path:
        """Save a site's share as an archive in the folder `target`; return the file.

        Raises: ModelNotFound. OSError: it cannot be written.
        """
        with tempfile.TemporaryFile() as file:
            disposition = self._connection.fetch(
                "/v1/model/export", _share(model_id, version, site), file, command="model/export"
            )
            file.seek(0)
            return keep(file, target, named_in(disposition) or f"{site.key}_{version}.zip")

    def import_(
        self,
        model_id: str,
        version: str,
        site: Site,
        archive: Path,
        *,
        replace: bool = False,
        sha256: str | None = None,
    ) -> None:
        """Store the share that an archive holds. Raises: ModelExists, BadModelArchive."""
        fields = {**_share(model_id, version, site), "force_update": str(int(replace))}
        if sha256 is not None:
            fields["hash"] = sha256
        try:
            file = archive.open("rb")
        except OSError as exc:
            raise BadDocument(where=str(archive), reason=exc.strerror or str(exc)) from exc
        with file:
            body = MultipartFile(file, name=archive.name, fields=fields)
            self._connection.send_form("/v1/model/import", body, command="model/import")

    def migrate(self, conf: Document) -> NewVersion:
        """Make a version with other party ids, as FATE's migrate conf says."""
        found: NewVersion = self._connection.do("model/migrate", read_document(conf), NewVersion)
        return found

    def store(self, model_id: str, version: str, site: Site, *, replace: bool = False) -> Submitted:
        """Start the local job that copies a share to the external model store."""
        body = {**_share(model_id, version, site), "force_update": int(replace)}
        return make_job(self._connection, "model/store", body)

    def restore(
        self, model_id: str, version: str, site: Site, *, sha256: str | None = None
    ) -> Submitted:
        """Start the local job that brings a share back from the external model store."""
        body = _share(model_id, version, site)
        return make_job(
            self._connection,
            "model/restore",
            body if sha256 is None else {**body, "sha256": sha256},
        )

    def load(self, version: str, *, model_id: str | None = None) -> dict[str, Any]:
        """Load a deployed version into the serving processes of all its parties, or of none.

        Returns role -> party -> 0. Raises: ModelNotFound, ModelNotDeployed, NotModelInitiator,
        NoServings, NotPublished.
        """
        found: dict[str, Any] = self._connection.do(
            "model/load", _named(version, model_id), dict[str, Any]
        )
        return found

    def unload(self, version: str, *, model_id: str | None = None) -> dict[str, Any]:
        """Let the serving processes of all its parties forget a version. Raises: as `load`."""
        found: dict[str, Any] = self._connection.do(
            "model/unload", _named(version, model_id), dict[str, Any]
        )
        return found

    def bind(
        self,
        version: str,
        service_id: str,
        *,
        model_id: str | None = None,
        weight: float = 100.0,
        shadow: bool = False,
        rules: Sequence[Mapping[str, Any]] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Let this party's serving processes answer a service with a loaded version.

        `weight` is the percent of the users that it answers; a `shadow` scores beside the others
        and answers nobody. `rules` and `options` are those of docs/serving.md; None: as they are.
        Raises: as `load`; BadServiceId.
        """
        body = _named(version, model_id)
        body |= {"service_id": service_id, "weight": weight, "shadow": shadow}
        given = {"rules": rules, "options": options}
        body |= {name: value for name, value in given.items() if value is not None}
        self._connection.do("model/bind", body)

    def rebind(self, service_id: str) -> None:
        """Let what answered for a service before the last change answer again.

        Raises: BadServiceId, NoServings, NotPublished.
        """
        self._connection.do("model/rebind", {"service_id": service_id})

    def unbind(self, service_id: str) -> None:
        """Let this party's serving processes forget a service.

        Raises: BadServiceId, NoServings, NotPublished.
        """
        self._connection.do("model/unbind", {"service_id": service_id})

    def homo_convert(self, model_id: str, version: str, site: Site, framework: str = "") -> Any:
        """Convert a horizontal model to a framework's format. Raises: NotSupportedYet."""
        body = _share(model_id, version, site)
        if framework:
            body["framework_name"] = framework
        return self._connection.do("model/homo/convert", body, Any)

    def homo_deploy(self, conf: Document) -> Any:
        """Deploy a converted horizontal model. Raises: NotSupportedYet."""
        return self._connection.do("model/homo/deploy", read_document(conf), Any)

    def archive(self, model_id: str, version: str, site: Site) -> Archive:
        """Pack a share on the server's machine and return where it lies, with its digest."""
        body = {
            "party_model_id": f"{site.role.value}#{site.party_id}#{model_id}",
            "model_version": version,
        }
        found: Archive = self._connection.do("model/archive/packaging", body, Archive)
        return found

    def woe_arrays(
        self,
        model_id: str,
        version: str,
        site: Site,
        component: str,
        *,
        host: str | None = None,
    ) -> dict[str, Any]:
        """Return the weights of evidence of a host's bins, by anonymous column, of a guest's share.

        Of the first host, without its party id. For the host's `merge_woe_arrays`.
        Raises: ModelNotFound, ModelComponentNotFound, WrongWoeArrays.
        """
        body = {**_share(model_id, version, site), "component_name": component}
        if host is not None:
            body["host_party_id"] = host
        found: dict[str, Any] = self._connection.do(
            "component/woe_array/extract", body, dict[str, Any]
        )
        return found

    def merge_woe_arrays(
        self, model_id: str, version: str, site: Site, component: str, arrays: Document
    ) -> None:
        """Put what `woe_arrays` gave at the guest into a host's share of a binning.

        Raises: ModelNotFound, ModelComponentNotFound, WrongWoeArrays: nothing was changed.
        """
        body = {
            **_share(model_id, version, site),
            "component_name": component,
            "woe_array": read_document(arrays),
        }
        self._connection.do("component/woe_array/merge", body)


class TagCalls:
    """Tags, and the versions that have them. A version is named by its `model_version`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, limit: int = 100) -> list[Tag]:
        """Return tags, newest first."""
        return self._tags("model/tag/list", {"limit": limit})

    def find(self, part: str) -> list[Tag]:
        """Return the tags whose name has this part. Raises: TagNotFound."""
        return self._tags("model/tag/retrieve", {"tag_name": part})

    def models(self, name: str) -> list[TaggedModel]:
        """Return the shares of versions that have this tag. Raises: TagNotFound."""
        found: Tags = self._connection.look_up(
            "model/tag/retrieve", {"tag_name": name, "with_model": True}, Tags
        )
        return list(found.models or ())

    def of(self, version: str) -> list[Tag]:
        """Return the tags of a version."""
        return self._tags("model/model_tag/retrieve", {"job_id": version})

    def create(self, name: str, description: str = "") -> None:
        """Make a tag. Raises: TagExists."""
        self._connection.do("model/tag/create", {"tag_name": name, "tag_desc": description})

    def update(
        self, name: str, *, new_name: str | None = None, description: str | None = None
    ) -> None:
        """Rename or describe a tag."""
        body = {"tag_name": name, "new_tag_name": new_name, "new_tag_desc": description}
        self._connection.do("model/tag/update", {k: v for k, v in body.items() if v is not None})

    def delete(self, name: str) -> None:
        """Delete a tag; its versions stay."""
        self._connection.do("model/tag/destroy", {"tag_name": name})

    def attach(self, name: str, version: str) -> None:
        """Give a tag to a version; it is made if there is none of this name."""
        self._connection.do("model/model_tag/create", {"job_id": version, "tag_name": name})

    def detach(self, name: str, version: str) -> None:
        """Take a tag from a version."""
        self._connection.do("model/model_tag/remove", {"job_id": version, "tag_name": name})

    def _tags(self, command: str, body: Mapping[str, Any]) -> list[Tag]:
        found: Tags = self._connection.look_up(command, body, Tags)
        return list(found.tags or ())


class CheckpointCalls:
    """States of models while they were trained."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, model_id: str, version: str, site: Site, component: str) -> list[Checkpoint]:
        """Return the checkpoints of a component by step; none is an empty list."""
        found: list[Checkpoint] = self._connection.look_up(
            "checkpoint/list",
            {**_share(model_id, version, site), "component_name": component},
            list[Checkpoint],
        )
        return found

    def get(
        self, model_id: str, version: str, site: Site, component: str, step: int | str
    ) -> Checkpoint:
        """Return one checkpoint, by the index or name of its step, with its contents."""
        body = {**_share(model_id, version, site), "component_name": component}
        which = {"step_index" if isinstance(step, int) else "step_name": step}
        found: Checkpoint = self._connection.look_up(
            "checkpoint/get", {**body, **which}, Checkpoint
        )
        return found


# --- predict confs --------------------------------------------------------------------------------


def filled_conf(
    conf: Mapping[str, Any], tables: Mapping[str | tuple[str, int | str], tuple[str, str]]
) -> dict[str, Any]:
    """Return a predict conf whose readers read `tables`. Raises: BadDocument."""
    filled = dict(conf)
    parameters = dict(conf.get("component_parameters") or {})
    roles = {role: dict(indices) for role, indices in (parameters.get("role") or {}).items()}
    parties = conf.get("role") or {}
    wanted = dict(tables)
    missing = []
    for role, indices in roles.items():
        for index, components in indices.items():
            readers = [c for c, p in components.items() if isinstance(p, dict) and "table" in p]
            if not readers:
                continue
            party = _party(parties.get(role) or [], index)
            key = next(
                (
                    k
                    for k in wanted
                    if k == role or (not isinstance(k, str) and _is(k, role, party))
                ),
                None,
            )
            if key is None:
                missing.append(f"{role} {party}")
                continue
            namespace, name = wanted[key]
            indices[index] = dict(components)
            for reader in readers:
                indices[index][reader] = {
                    **components[reader], "table": {"namespace": namespace, "name": name}
                }  # fmt: skip
    used = {role for role, indices in roles.items() if indices}
    unknown = [k for k in wanted if (k if isinstance(k, str) else k[0]) not in used]
    if missing or unknown:
        parts = [f"no table is named for {', '.join(missing)}"] if missing else []
        parts += [f"the model reads no table at {', '.join(map(str, unknown))}"] if unknown else []
        raise BadDocument(where="the predict job", reason=" and ".join(parts))
    filled["component_parameters"] = {**parameters, "role": roles}
    return filled


def _party(parties: Sequence[Any], index: str) -> str:
    return str(parties[int(index)]) if index.isdigit() and int(index) < len(parties) else index


def _is(key: tuple[str, int | str], role: str, party: str) -> bool:
    return key[0] == role and str(key[1]) == party


def _version(model_id: str, version: str) -> dict[str, Any]:
    return {"model_id": model_id, "model_version": version}


def _share(model_id: str, version: str, site: Site) -> dict[str, str]:
    return {
        "model_id": model_id,
        "model_version": version,
        "role": site.role.value,
        "party_id": site.party_id,
    }


def _named(version: str, model_id: str | None) -> dict[str, Any]:
    """Return the body that names a version; a branch or a tag is that of a model."""
    return {"job_id": version} if model_id is None else {"job_id": version, "model_id": model_id}
