"""What becomes of an answer: it is printed as FATE's client prints it, or its file is kept.

Source: docs/reference/rest.md#upload-and-download and docs/reference/rest.md#the-flow-command.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedflow.base.values import dataclass
from fedflow.cli.flow.requests import Request, Values
from fedflow.client.archive import unpack
from fedflow.client.connection import RawAnswer
from fedflow.client.downloads import keep, named_in, safe_name

Envelope = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class CliResponse:
    """An answer: an envelope, or a file of this machine that holds a download."""

    request: Request
    values: Values
    answer: RawAnswer
    file: Path | None = None


Keep = Callable[[CliResponse], Envelope]


def envelope(got: CliResponse) -> Envelope:
    """Return the JSON of an answer; anything else becomes the message of a failure."""
    try:
        found = json.loads(got.answer.text)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    return {"retcode": 100, "retmsg": got.answer.text or f"HTTP {got.answer.status}"}


def without_documents(got: CliResponse) -> Envelope:
    """Return an answer without the DSL and conf of each job, which are long."""
    found = envelope(got)
    for row in found.get("data") or () if found.get("retcode") == 0 else ():
        if isinstance(row, dict):
            row.pop("f_dsl", None)
            row.pop("f_runtime_conf", None)
    return found


def config_files(got: CliResponse) -> Envelope:
    """Write each part of a job's configuration to a file of its own."""
    found = envelope(got)
    parts = found.get("data")
    if found.get("retcode") != 0 or not isinstance(parts, dict):
        return found
    folder = _folder(got) / safe_name(f"job_{got.values['job_id']}_config")
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in parts.items():
        if name != "job_id":
            text = json.dumps(value, indent=4, ensure_ascii=False)
            (folder / f"{safe_name(name)}.json").write_text(text, encoding="utf-8")
    short = {name: value for name, value in parts.items() if name not in ("dsl", "runtime_conf")}
    return {**_saved_folder(folder), "data": short}


def unpacked(*naming: str) -> Keep:
    """Unpack an archive into a folder of the output path, named after these words and options."""

    def keep(got: CliResponse) -> Envelope:
        if got.file is None:
            return envelope(got)
        words = [str(got.values.get(word, word)) for word in naming]
        folder = _folder(got) / safe_name("_".join(words)) if words else _folder(got)
        unpack(got.file, folder)
        return _saved_folder(folder)

    return keep


def saved_file(got: CliResponse) -> Envelope:
    """Keep a file under the name that was asked for, or that the server gave it."""
    if got.file is None:
        return envelope(got)
    name = got.request.body.get("filename") or named_in(got.answer.disposition) or "download"
    with got.file.open("rb") as content:
        return _saved_file(keep(content, _folder(got), str(name)))


def data_file(got: CliResponse) -> Envelope:
    """Write the answer's data to the output path: a text as it is, anything else as JSON."""
    found = envelope(got)
    data = found.pop("data", None)
    if found.get("retcode") != 0 or not data:
        return found
    path = Path(got.values["output_path"]).expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = data if isinstance(data, str) else json.dumps(data, indent=4, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    return _saved_file(path)


def _folder(got: CliResponse) -> Path:
    given = got.values.get("output_path") or got.request.body.get("output_path") or "."
    return Path(given).expanduser().absolute()


def _saved_folder(path: Path) -> Envelope:
    """Return what is printed; scripts read the path from the sentence, too."""
    sentence = f"download successfully, please check {path} directory"
    return {"retcode": 0, "directory": str(path), "retmsg": sentence}


def _saved_file(path: Path) -> Envelope:
    return {"retcode": 0, "file": str(path), "retmsg": f"It was saved. File path is: {path}"}
