"""Examples of what clients send, packed for `template/download`.

`fate_examples/` has jobs and their data, `fateflow_examples/` has the conf files of other commands.
Source: `docs/reference/rest.md#administration`.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from fedflow.base.clock import Clock
from fedflow.base.errors.data import NoData

_GUEST, _HOST = "breast_hetero_guest", "breast_hetero_host"
_SITE: Final = {"role": "guest", "party_id": 9999}
_MODEL: Final = {
    "model_id": "arbiter-10000#guest-9999#host-10000#model",
    "model_version": "the job id of the training",
}


def _upload(table: str) -> dict[str, Any]:
    return {
        "file": f"fate_examples/data/{table}.csv",
        "head": 1,
        "partition": 4,
        "namespace": "experiment",
        "table_name": table,
    }


_CONFS: Final[Mapping[str, Any]] = {
    "upload/upload_guest.json": _upload(_GUEST),
    "upload/upload_host.json": _upload(_HOST),
    "table/bind_path.json": {
        "engine": "PATH",
        "namespace": "experiment",
        "name": _GUEST,
        "address": {"path": f"/a/folder/of/upload.allowed_folders/{_GUEST}.csv"},
        "head": 1,
        "id_delimiter": ",",
    },
    "model/export_model.json": {**_MODEL, **_SITE, "output_path": "/where/to/put/it"},
    "model/import_model.json": {**_MODEL, **_SITE, "file": "/path/of/an/exported/model.zip"},
    "permission/grant.json": {
        "party_id": "10000",
        "component": "reader,heterolr",
        "dataset": [{"namespace": "experiment", "name": _GUEST}],
    },
    "key/save.json": {"party_id": "10000", "key": "-----BEGIN PUBLIC KEY-----\n..."},
}


class Templates:
    """The use case of `/v1/template/download`. `examples` is the folder with jobs and data."""

    def __init__(self, *, examples: Path | None, clock: Clock) -> None:
        self._examples = examples
        self._clock = clock

    def write(self, target: IO[bytes]) -> None:
        """Write a tar.gz. Raises: NoData: this installation has no examples."""
        if self._examples is None:
            raise NoData(reason="this installation has no examples")
        now_s = self._clock.now_ms() // 1000
        with (
            gzip.GzipFile(fileobj=target, mode="wb", compresslevel=6, mtime=now_s) as gz,
            tarfile.open(fileobj=gz, mode="w") as tar,
        ):
            for name, content in _members(self._examples):
                member = tarfile.TarInfo(name)
                member.size, member.mtime = len(content), now_s
                tar.addfile(member, io.BytesIO(content))

    def jobs(self) -> list[str]:
        """Return the names of the example jobs, none if this installation has no examples."""
        if self._examples is None:
            return []
        found = self._examples.glob("*/dsl.json")
        return sorted(dsl.parent.name for dsl in found if _conf(dsl).is_file())

    def job(self, name: str) -> tuple[str, str]:
        """Return DSL and conf of an example job as texts. Raises: NoData: there is none."""
        if self._examples is None or name not in self.jobs():
            raise NoData(reason=f"there is no example {name[:100]!r}")
        dsl = self._examples / name / "dsl.json"
        return dsl.read_text(encoding="utf-8"), _conf(dsl).read_text(encoding="utf-8")


def _conf(dsl: Path) -> Path:
    return dsl.with_name("conf.json")


def _members(examples: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the members of the archive: relative names and contents, in a fixed order."""
    for folder in sorted(f for f in examples.iterdir() if f.is_dir()):
        for file in sorted(f for f in folder.iterdir() if f.is_file()):
            yield f"fate_examples/{folder.name}/{file.name}", file.read_bytes()
    for name, conf in _CONFS.items():
        yield f"fateflow_examples/{name}", json.dumps(conf, indent=2).encode() + b"\n"
