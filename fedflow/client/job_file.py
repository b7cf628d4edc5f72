"""A whole job in one file, YAML or JSON: an object with the members `dsl` and `conf`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fedflow.base.errors.requests import BadDocument
from fedflow.base.values import dataclass
from fedflow.client.documents import parse_document, read_text

_MEMBERS: Final = ("dsl", "conf")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFile:
    """A DSL and a runtime conf as FATE writes them; a predict job has the DSL `{}`."""

    dsl: Mapping[str, Any]
    conf: Mapping[str, Any]


def read_job_file(path: str | os.PathLike[str]) -> JobFile:
    """Return the job that a file holds. Raises: BadDocument: as `parse_job_file`, or no file."""
    return parse_job_file(read_text(Path(path), os.fspath(path)), os.fspath(path))


def parse_job_file(text: str, shown: str) -> JobFile:
    """Return the job in `text`: JSON if it begins with a brace, else YAML.

    `shown` names it in errors. Raises: BadDocument: its `where` has line and column of the first
        mistake; a member is missing, unknown, or no object.
    """
    found = parse_document(text, shown) if text.lstrip().startswith("{") else _yaml(text, shown)
    if not isinstance(found, dict):
        reason = f"it must be a mapping with `dsl` and `conf`, not {_kind(found)}"
        raise BadDocument(where=shown, reason=reason)
    for name in found:
        if name not in _MEMBERS:
            reason = f"it has an unknown member {name[:100]!r}; known are `dsl` and `conf`"
            raise BadDocument(where=shown, reason=reason)
    for name in _MEMBERS:
        if name not in found and (name == "conf" or not _predicts(found)):
            more = "; only a predict job needs none" if name == "dsl" else ""
            raise BadDocument(where=shown, reason=f"the member `{name}` is missing{more}")
        if not isinstance(found.get(name, {}), dict):
            reason = f"`{name}` must be a mapping, not {_kind(found[name])}"
            raise BadDocument(where=shown, reason=reason)
    return JobFile(dsl=found.get("dsl", {}), conf=found["conf"])


def _yaml(text: str, shown: str) -> Any:
    from fedflow.client.yaml_text import parse_yaml  # most jobs are JSON

    return parse_yaml(text, shown)


def _predicts(found: Mapping[str, Any]) -> bool:
    """Tell whether a job predicts, by its conf of version 2 or 1."""
    conf = found.get("conf")
    parameters = conf.get("job_parameters") if isinstance(conf, dict) else None
    common = parameters.get("common", parameters) if isinstance(parameters, dict) else None
    return isinstance(common, dict) and common.get("job_type") == "predict"


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return "a list" if isinstance(value, list) else f"{str(value)[:40]!r}"
