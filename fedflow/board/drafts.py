"""A job that somebody writes on the submit page: two texts, and where they began."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from flask import request
from werkzeug.datastructures import FileStorage, MultiDict

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.values import dataclass
from fedflow.board.language import t
from fedflow.board.presenters.json_text import JsonText, read_json
from fedflow.board.presenters.submit import FIELDS, Field, split, without_key
from fedflow.domain.job.conf import mode_of
from fedflow.domain.records import JobFilter, JobRecord
from fedflow.web.context import services

MAX_TEXT: Final = 2 * 1024 * 1024  #: characters of one text; larger jobs go through CLI or REST
MAX_FORM: Final = 4 * MAX_TEXT * 4  #: bytes of the form: two texts, as browsers encode them
MAX_FILES: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """What the form holds."""

    dsl: str = ""
    conf: str = ""
    key: str = ""  #: idempotency key: a form is one job, however often it is sent
    source: str = ""  #: id of the job that it is a changed copy of
    notes: tuple[str, ...] = ()  #: what people should know of where it comes from
    faults: tuple[str, ...] = ()  #: why something of it could not be taken

    @property
    def is_empty(self) -> bool:
        return not self.dsl.strip() and not self.conf.strip()

    def text(self, field: Field) -> str:
        """Return one of the two texts."""
        return self.dsl if field == "dsl" else self.conf

    def with_texts(self, texts: Mapping[Field, str]) -> Draft:
        """Return the draft with other texts."""
        return replace(
            self, dsl=texts.get("dsl", self.dsl), conf=texts.get("conf", self.conf)
        )  # fmt: skip

    def read(self) -> dict[Field, JsonText]:
        """Return both texts as read. A predict job needs no DSL: its model knows it."""
        read = {field: read_json(self.text(field)) for field in FIELDS}
        if not self.dsl.strip() and mode_of(read["conf"].value) == "predict":
            read["dsl"] = JsonText(text=self.dsl, value={}, is_json=True, faults=())
        return read

    @property
    def long(self) -> list[Field]:
        """Return the texts that are too long for this page."""
        return [field for field in FIELDS if len(self.text(field)) > MAX_TEXT]


def fresh() -> Draft:
    """Return an empty form."""
    return Draft(key=secrets.token_urlsafe(18))


def of_form(form: MultiDict[str, str]) -> Draft:
    """Return what a form was sent with. Browsers send each line break as two characters."""
    return Draft(
        dsl=form.get("dsl", "").replace("\r\n", "\n"),
        conf=form.get("conf", "").replace("\r\n", "\n"),
        key=form.get("key", "")[:255] or fresh().key,
        source=form.get("from", "")[:100],
    )


def of_example(name: str) -> Draft:
    """Return an example job; an empty form that says so if there is none of this name."""
    if name not in services().administration.templates.jobs():
        return replace(fresh(), faults=(t("There is no example {name}.", name=name[:100]),))
    dsl, conf = services().administration.templates.job(name)
    return replace(fresh(), dsl=dsl, conf=conf)


# --- from an earlier job --------------------------------------------------------------------------


def of_job(job_id: str) -> Draft:
    """Return a copy of a job that this server initiated; of another one a form that says why not.

    Raises: JobNotFound.
    """
    found = services().jobs.find(JobFilter(job_id=job_id))
    if not found:
        raise JobNotFound(job_id=job_id[:100])
    own = initiated(found)
    if own is None:
        where = found[0].initiator
        why = t(
            "Job {job_id} was initiated by {site}, at another server. This server has only its own "
            "part of the configuration, so it cannot copy the job.",
            job_id=job_id[:100],
            site=where,
        )
        return replace(fresh(), faults=(why,))
    dsl, conf, had_key = original(own)
    notes = [t("This is a copy of job {job_id}. Change it and submit.", job_id=job_id[:100])]
    if had_key:
        notes.append(t("Its idempotency key was left out: it belongs to the earlier job."))
    return replace(
        fresh(),
        dsl="" if mode_of(conf) == "predict" else _pretty(dsl),
        conf=_pretty(conf),
        source=own.key.job_id,
        notes=tuple(notes),
    )


def initiated(found: Iterable[JobRecord]) -> JobRecord | None:
    """Return the initiator's party job, None if it is not at this server."""
    return next((job for job in found if job.is_initiator), None)


def original(job: JobRecord) -> tuple[Any, Any, bool]:
    """Return DSL and conf that a copy of a job begins with, and whether a key was left out."""
    try:
        dsl, conf = services().administration.job_files.submitted(job)
    except FedflowError:  # its files are damaged
        dsl, conf = job.dsl, job.conf
    conf, had_key = without_key(conf)
    return dsl, conf, had_key


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# --- from files -----------------------------------------------------------------------------------


def with_files(draft: Draft, files: Iterable[FileStorage]) -> Draft:
    """Return a draft with the texts of uploaded files: a DSL, a conf, or both in one file."""
    texts: dict[Field, str] = {}
    faults: list[str] = []
    given = [file for file in files if file.filename]
    if not given:
        faults.append(t("Choose a file first."))
    if len(given) > MAX_FILES:
        faults.append(t("At most {n} files can be opened at once.", n=MAX_FILES))
    for file in given[:MAX_FILES]:
        name = (file.filename or "")[:100]
        text = _text_of(file)
        if text is None:
            faults.append(t("{file} is no UTF-8 text of at most 2 MiB.", file=name))
            continue
        found = split(read_json(text))
        if not found:  # show it where it can be fixed, with its mistakes
            field = _guessed(name, text, texts)
            found = {field: text}
            why = t("{file} is neither a DSL nor a conf; see the message about it.", file=name)
            faults.append(why)
        texts.update(found)
    return replace(draft.with_texts(texts), faults=tuple(faults))


def _text_of(file: FileStorage) -> str | None:
    content = file.stream.read(4 * MAX_TEXT + 1)
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None
    return text if len(text) <= MAX_TEXT and "\0" not in text else None


def _guessed(name: str, text: str, taken: Mapping[Field, str]) -> Field:
    """Return which text a file may be that is not well formed."""
    if "components" in text and "job_parameters" not in text and "dsl" not in taken:
        return "dsl"
    if "job_parameters" in text or "conf" in name.lower():
        return "conf"
    return "conf" if "dsl" in taken else "dsl"


def allow_long_texts() -> None:
    """Let this request's form be as large as two texts may be."""
    request.max_form_memory_size = MAX_FORM
