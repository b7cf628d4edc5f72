"""The formats in which jobs are submitted: each is a reader in `FORMATS` that gives version 2.

A job is converted once, when it is submitted; what is stored, sent and run is version 2. A further
format needs a module like `version_1`, a line in the table, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import mode_of, version_of
from fedflow.domain.job.document import JsonObject, Report, check_document, kind_of, shown
from fedflow.domain.job.dsl import Mode
from fedflow.domain.job.version_1 import convert_job
from fedflow.domain.job.warning import JobWarning


@dataclass(frozen=True, kw_only=True, slots=True)
class JobForm:
    """A submitted job as version 2; its rules are checked by `parse_job`."""

    dsl: object
    conf: JsonObject
    version: int  #: of the given form
    mode: Mode
    warnings: tuple[JobWarning, ...]  #: what the conversion did


_Reader = Callable[[object, JsonObject, Report], tuple[object, JsonObject]]
"""(DSL, conf, where mistakes and notes go) -> (DSL, conf) of version 2."""


def _as_given(dsl: object, conf: JsonObject, _: Report) -> tuple[object, JsonObject]:
    return dsl, conf


FORMATS: Final[Mapping[str, _Reader]] = {"1": convert_job, "2": _as_given}
"""By what the conf's `dsl_version` says."""


def as_strict(conf: object) -> object:
    """Return a conf of either version as one of a strict job; what is no conf stays as it is."""
    given = conf.get("job_parameters") if isinstance(conf, dict) else None
    if not isinstance(conf, dict) or not isinstance(given, dict | None):
        return conf
    section = dict(given or {})
    common = section.get("common")
    if version_of(conf) != "1" and not isinstance(common, dict | None):
        return conf
    if version_of(conf) == "1" and not isinstance(common, dict):
        section["strict"] = True
    else:
        section["common"] = {**(common or {}), "strict": True}
    return {**conf, "job_parameters": section}


def read_job(dsl: object, conf: object) -> JobForm:
    """Return a submitted job as version 2, whatever its format.

    For a predict job, `dsl` is its predict DSL: the deployed model knows it.
    Raises: InvalidJobSpec: the format is unknown, or the job breaks a rule of its own format; paths
    are those of the given form. The rules of version 2 are not checked here.
    """
    report = Report()
    check_document(dsl, "$.dsl", report=report)
    check_document(conf, "$.conf", report=report)
    report.raise_if_any()
    if not isinstance(conf, dict):
        report.problem("$.conf", f"must be an object, not {kind_of(conf)}", rule="ConfTypeError")
        raise InvalidJobSpec(report.problems)
    version = version_of(conf)
    if version not in FORMATS:
        message = f"{shown(version)} is unknown; known are {', '.join(FORMATS)}"
        report.problem("$.conf.dsl_version", message, rule="DSLVersionError")
        raise InvalidJobSpec(report.problems)
    converted_dsl, converted_conf = FORMATS[version](dsl, conf, report)
    report.raise_if_any()
    return JobForm(
        dsl=converted_dsl,
        conf=converted_conf,
        version=int(version),
        mode=mode_of(conf),
        warnings=report.warnings,
    )
