"""The files that a submit writes for people and tools: what was asked for, beside the job.

Layout below `jobs/<job>`: FATE's (`docs/reference/jobs.md#files-of-a-job`). The store is the truth;
nothing is ever read back from here to run a job.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.jobs import JobFilesNotWritten
from fedflow.base.values import dataclass
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.site import Site

_INDENT: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmittedFiles:
    """Where the files of one job lie; the names are those of FATE's answer."""

    dsl_path: Path
    runtime_conf_path: Path
    runtime_conf_on_party_path: Path
    train_runtime_conf_path: Path
    pipeline_dsl_path: Path


def files_of(folders: Folders, job_id: str, site: Site) -> SubmittedFiles:
    """Return where a job's files are written at the site that submitted it."""
    home = folders.job_files(job_id)
    return SubmittedFiles(
        dsl_path=home / "job_dsl.json",
        runtime_conf_path=home / "job_runtime_conf.json",
        runtime_conf_on_party_path=home
        / site.role.value
        / site.party_id
        / "job_runtime_on_party_conf.json",
        train_runtime_conf_path=home / "train_runtime_conf.json",
        pipeline_dsl_path=home / "pipeline_dsl.json",
    )


def conf_on_party(conf: Any, parameters: Any) -> dict[str, Any]:
    """Return a runtime conf as one site reads it: with the job parameters that count there."""
    return {**conf, "job_parameters": parameters}


def write_files(
    folders: Folders, job_id: str, spec: JobSpec, *, train_conf: Any, given: tuple[Any, Any]
) -> SubmittedFiles:
    """Write the files of a job; `given` is (DSL, conf) as submitted, kept too if it differs.

    Raises: JobFilesNotWritten.
    """
    site = spec.initiator
    files = files_of(folders, job_id, site)
    predicts = bool(train_conf)
    contents: dict[Path, Any] = {
        files.dsl_path: spec.dsl,
        files.runtime_conf_path: spec.conf,
        files.runtime_conf_on_party_path: conf_on_party(
            spec.conf, spec.job_parameters_at(site).as_json()
        ),
        files.train_runtime_conf_path: train_conf,
        files.pipeline_dsl_path: spec.dsl if predicts else {},
    }
    if given != (spec.dsl, spec.conf):
        contents[files.dsl_path.with_name("submitted_dsl.json")] = given[0]
        contents[files.dsl_path.with_name("submitted_runtime_conf.json")] = given[1]
    try:
        files.runtime_conf_on_party_path.parent.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=_INDENT))
    except OSError as exc:
        where = folders.job_files(job_id)
        raise JobFilesNotWritten(path=where, reason=exc.strerror or str(exc)) from exc
    return files
