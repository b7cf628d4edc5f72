"""What a job is made of, as one of its sites got it: DSL, conf, where its models come from."""

from __future__ import annotations

from typing import Any, Final

from flask import Response

from fedflow.base.errors.requests import RouteNotFound
from fedflow.board.formats import as_json
from fedflow.board.job_frame import PREFIX, JobFrame, job_frame
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, page
from fedflow.board.presenters import job_head
from fedflow.board.presenters.masking import masked
from fedflow.domain.job.own_conf import own_conf
from fedflow.web.context import services

board_job_definition = board_blueprint("board_job_definition", PREFIX)

SHOWN: Final = 200_000  #: characters of a document that are shown as text

_FILES: Final = ("dsl", "conf", "train_conf")


@board_job_definition.get("/definition")
def show(job_id: str, role: str, party_id: str) -> Response:
    """Return the documents of a job as trees and as texts."""
    frame = job_frame(job_id, role, party_id)
    documents = []
    titles = {"dsl": t("DSL"), "conf": t("Runtime conf"), "train_conf": t("Training conf")}
    for name, value in _documents(frame).items():
        text = as_json(value)
        url = frame.url(f"definition/{name}.json")
        documents.append((name, titles[name], value, text[:SHOWN], len(text) > SHOWN, url))
    model_id, model_version, is_predict = job_head.model_of(frame.job)
    return page(
        "job_definition.html",
        title=t("Definition of job {job_id}", job_id=job_id[:60]),
        nav="jobs",
        documents=documents,
        model_id=model_id,
        model_version=model_version,
        is_predict=is_predict,
        reused=_reused(frame),
        **frame.values("definition"),
    )


@board_job_definition.get("/definition/<name>.json")
def download(job_id: str, role: str, party_id: str, name: str) -> Response:
    """Return one document as a file."""
    found = _documents(job_frame(job_id, role, party_id))
    if name not in found:
        raise RouteNotFound(method="GET", path=f"definition/{name[:40]}.json")
    answer = Response(as_json(found[name]), mimetype="application/json")
    # the id is one that a job has, so it holds letters that stand in headers
    answer.headers.set("Content-Disposition", "attachment", filename=f"{name}_{job_id}.json")
    return answer


def _documents(frame: JobFrame) -> dict[str, Any]:
    """Return the documents that this site may see, without secrets, by name."""
    job = frame.job
    is_initiator = frame.is_initiator
    conf = own_conf(job.conf, frame.site, job.roles, is_initiator=is_initiator)
    found = {"dsl": job.dsl, "conf": conf}
    if job.train_conf:
        found["train_conf"] = own_conf(
            job.train_conf, frame.site, job.roles, is_initiator=is_initiator
        )
    return {name: masked(found[name]) for name in _FILES if name in found}


def _reused(frame: JobFrame) -> list[tuple[str, str]]:
    tasks = services().site_jobs.own_tasks(frame.job_id, frame.site)
    return [(own.key.component, own.inherited_from) for own in tasks if own.inherited_from]
