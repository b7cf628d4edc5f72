"""`fedflow_model.json`, the list of what a model archive holds, and its checks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fedflow.app.ports.models import ArchiveFiles
from fedflow.base.decoding import read_as
from fedflow.base.errors.models import BadModelArchive
from fedflow.base.errors.requests import BadRequest, NotSupportedYet
from fedflow.domain.job.document import Report, check_document
from fedflow.domain.job.dsl import declared_components
from fedflow.domain.models.model import (
    ARCHIVE_FORMAT,
    MAX_MODEL_ID,
    Checkpoint,
    ModelComponent,
    ModelKey,
    ModelPart,
    ModelVersion,
    part_of,
)
from fedflow.wire.json_text import MAX_MODEL_VALUES, decode_json

DOCUMENT: Final = "fedflow_model.json"
REQUEST: Final = "import_model.json"
MAX_DOCUMENT_BYTES: Final = 32 * 1024 * 1024
_DEPTH: Final = 200
_FATE_DOCUMENT: Final = "define/define_meta.yaml"
_RULES: Final = {
    "component": re.compile(r"[0-9A-Za-z_-]{1,100}"),
    "model_id": re.compile(r"[0-9A-Za-z_#.~-]+"),
    "module": re.compile(r"[^\x00-\x1f]{0,200}"),
    "name": re.compile(r"[0-9A-Za-z_.-]{1,100}"),
    "version": re.compile(r"[0-9A-Za-z_-]{1,64}"),
    "party": re.compile(r"[0-9A-Za-z]{1,32}"),
    "fate_version": re.compile(r"[0-9A-Za-z_.+-]{1,32}"),
}

Stored = ModelComponent | Checkpoint


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rows of one site's share of one version."""

    format: str
    version: ModelVersion
    components: list[ModelComponent]
    checkpoints: list[Checkpoint]

    @property
    def stored(self) -> list[Stored]:
        """Return everything that has contents."""
        return [*self.components, *self.checkpoints]


def path_of(stored: Stored, part: ModelPart) -> str:
    """Return where an object lies in an archive.

    Source: FATE's folders, `docs/reference/models.md#archive`.
    """
    if isinstance(stored, Checkpoint):
        step = f"{stored.step_index}#{stored.step_name}"
        return f"checkpoint/{stored.component}/{step}/{part.name}.json"
    return f"variables/data/{stored.component}/{stored.alias}/{part.name}.json"


def read_document(files: ArchiveFiles) -> Document:
    """Return the list of an archive, unchecked. Raises: BadModelArchive, NotSupportedYet: it is an
    archive of FATE itself, whose contents are protobuf messages.
    """
    if DOCUMENT not in files.paths and _FATE_DOCUMENT in files.paths:
        raise NotSupportedYet(what="Importing a model that FATE exported (protobuf)")
    raw = files.read(DOCUMENT, limit=MAX_DOCUMENT_BYTES)
    try:
        document = read_as(
            decode_json(raw, max_depth=_DEPTH, max_values=MAX_MODEL_VALUES), Document
        )
    except BadRequest as exc:
        raise BadModelArchive(reason=f"{DOCUMENT}: {exc.fields['reason']}") from exc
    except (msgspec.ValidationError, ValueError) as exc:
        raise BadModelArchive(reason=f"{DOCUMENT}: {exc}") from exc
    if document.format != ARCHIVE_FORMAT:
        raise BadModelArchive(reason=f"its format is not {ARCHIVE_FORMAT}")
    return document


def check_list(document: Document, key: ModelKey, paths: frozenset[str]) -> None:
    """Compare a list with what was asked for and with the files that are there.

    Raises: BadModelArchive.
    """
    version = document.version
    if version.key != key:
        raise BadModelArchive(reason=f"it is of {_short(version.key)}")
    if len(key.model_id) > MAX_MODEL_ID:
        raise BadModelArchive(reason="its model id is too long")
    _check_version(version)
    _check_unique("component", [c.component for c in document.components])
    _check_unique("step", [(c.component, c.step_index) for c in document.checkpoints])
    expected = {DOCUMENT, REQUEST}
    for stored in document.stored:
        if stored.key != key:
            raise BadModelArchive(reason=f"it has a part of {_short(stored.key)}")
        _check_stored(stored)
        expected |= {path_of(stored, stored.meta), path_of(stored, stored.param)}
    unknown = sorted(paths - expected)
    if unknown:
        raise BadModelArchive(reason=f"it has {unknown[0]}, which its list does not name")
    missing = sorted(expected - paths - {REQUEST})
    if missing:
        raise BadModelArchive(reason=f"it lacks {missing[0]}")


def content_of(files: ArchiveFiles, path: str, part: ModelPart) -> bytes:
    """Return an object's JSON, compared with its digests. Raises: BadModelArchive."""
    content = files.read(path)
    if part_of(part.name, content) != part:
        raise BadModelArchive(reason=f"{path} does not have the digest that the list gives")
    try:
        value = decode_json(content, max_depth=_DEPTH, max_values=MAX_MODEL_VALUES)
    except BadRequest as exc:
        raise BadModelArchive(reason=f"{path}: {exc.fields['reason']}") from exc
    if not isinstance(value, dict):
        raise BadModelArchive(reason=f"{path} is no JSON object")
    return content


def _check_version(version: ModelVersion) -> None:
    key = version.key
    for rule, text in (
        ("model_id", key.model_id),
        ("version", key.model_version),
        ("version", version.job_id),
        ("party", key.site.party_id),
        ("party", version.initiator.party_id),
        ("fate_version", version.fate_version),
    ):
        _check_text(rule, text)
    for site in (key.site, version.initiator):
        if site.party_id not in version.roles.get(site.role.value, ()):
            raise BadModelArchive(reason=f"{site} is none of the roles of its model")
    objects = (
        version.train_dsl, version.train_conf, version.conf_on_party, version.inference_dsl,
        version.parent_info,
    )  # fmt: skip
    if not all(isinstance(value, dict) for value in objects):
        raise BadModelArchive(reason="a DSL or conf in its list is no object")
    report = Report()
    for value in objects:
        check_document(value, "$", report=report)
    for dsl in filter(None, (version.train_dsl, version.inference_dsl)):
        declared_components(dsl, report)
    if report.found:
        problem = report.problems[0]
        raise BadModelArchive(
            reason=f"a DSL or conf in its list is wrong: {problem.path} {problem.message}"
        )
    if not version.ready:
        raise BadModelArchive(reason="its version was not complete")


def _check_stored(stored: Stored) -> None:
    _check_text("component", stored.component)
    for name in (stored.alias, stored.meta.name, stored.param.name):
        _check_text("name", name)
    if stored.meta.name == stored.param.name:
        raise BadModelArchive(reason=f"{stored.component} has two objects of one name")
    if isinstance(stored, Checkpoint):
        _check_text("name", stored.step_name)
        if not 0 <= stored.step_index < 2**31 or not 0 <= stored.attempt < 2**31:
            raise BadModelArchive(reason="the number of a step is out of range")
    else:
        _check_text("module", stored.module)
        if not isinstance(stored.run_parameters, dict):
            raise BadModelArchive(reason=f"the parameters of {stored.component} are no object")
    if not 0 <= stored.created_ms < 2**62:
        raise BadModelArchive(reason="a time is out of range")


def _check_text(rule: str, text: str) -> None:
    if not _RULES[rule].fullmatch(text):
        raise BadModelArchive(reason=f"{text[:100]!r} is not a {rule.replace('_', ' ')}")


def _check_unique(what: str, values: Iterable[Any]) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise BadModelArchive(reason=f"its list has the {what} {value} twice")
        seen.add(value)


def _short(key: ModelKey) -> str:
    return str(key)[:300]
