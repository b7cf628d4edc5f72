"""What people do with a job from its page or from the list: stop, rerun, notes, tags, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

from flask import Response, request

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.board import access, site_roles
from fedflow.board.forms import act
from fedflow.board.language import t
from fedflow.board.message_catalog import message_of
from fedflow.board.page import board_blueprint, came_from, page, redirect_to
from fedflow.domain.administration.accounts import AccountRole
from fedflow.web.context import services

board_job_actions = board_blueprint("board_job_actions", "/jobs")

MOST_NOTES: Final = 100_000  #: characters
MOST_TICKED: Final = 200  #: jobs of one action


@act(board_job_actions, "/<job_id>/stop")
def stop(job_id: str) -> Response:
    """End a job at all its sites."""
    ended = services().jobs.request_stop(job_id)
    if ended is not None:
        return _back(job_id, t("The job had ended before."))
    return _back(job_id, t("The job is being stopped."))


@act(board_job_actions, "/<job_id>/rerun")
def rerun(job_id: str) -> Response:
    """Run an ended job again: fields `component` (may be several), `force`, `failed_only`."""
    components = [name for name in request.form.getlist("component") if name]
    services().reruns.rerun(
        job_id,
        components=components or None,
        force=_is_set("force"),
        failed_only=_is_set("failed_only"),
    )
    return _back(job_id, t("The job runs again."))


@act(board_job_actions, "/<job_id>/pause")
def pause(job_id: str) -> Response:
    """Let nothing new of a job start."""
    services().control.pause(job_id)
    return _back(job_id, t("The job is paused: running tasks go on, no further task starts."))


@act(board_job_actions, "/<job_id>/continue", endpoint="proceed")
def proceed(job_id: str) -> Response:
    """Let a paused job go on: fields `steps` (how many components may begin), `all`."""
    steps = request.form.get("steps", "").strip()
    if steps and not (steps.isascii() and steps.isdigit() and len(steps) <= 9):
        raise BadRequest(reason=t("the number of steps is a whole number"))
    services().control.proceed(job_id, steps=int(steps) if steps else None, all_=_is_set("all"))
    return _back(job_id, t("The job continues."))


@act(board_job_actions, "/<job_id>/notes")
def notes(job_id: str) -> Response:
    """Store the notes of one party job: fields `notes`, `role`, `party_id`."""
    text = request.form.get("notes", "").replace("\r\n", "\n").replace("\x00", "")
    if len(text) > MOST_NOTES:
        raise BadRequest(reason=t("notes have at most {n} characters", n=MOST_NOTES))
    site = services().jobs.job(job_id).key.site
    role = request.form.get("role") or site.role.value
    party_id = request.form.get("party_id") or site.party_id
    services().jobs.set_notes(job_id, role, party_id, notes=text)
    return _back(job_id, t("The notes were saved."))


@act(board_job_actions, "/<job_id>/tags")
def tags(job_id: str) -> Response:
    """Give or take a tag: field `add` or `remove`."""
    removed, added = request.form.get("remove", ""), request.form.get("add", "").strip()
    if removed:
        services().job_tags.remove(job_id, removed)
        return _back(job_id, t("The tag was removed."))
    services().job_tags.add(job_id, added)
    return _back(job_id, t("The tag was added."))


@act(board_job_actions, "/ticked")
def ticked() -> Response:
    """Do one thing with several jobs: fields `job`, `do` (compare, stop, rerun, tag), `tag`."""
    job_ids = list(dict.fromkeys(request.form.getlist("job")))[:MOST_TICKED]
    if request.form.get("do") == "compare":
        return redirect_to(f"/board/compare?{urlencode([('job', one) for one in job_ids])}")
    action = _for_each(request.form.get("do", ""))
    refused = []
    for job_id in job_ids:
        try:
            action(job_id)
        except FedflowError as exc:
            refused.append(f"{job_id[-12:]}: {message_of(exc)}")
    done = t("Done for {n} of {m} jobs.", n=len(job_ids) - len(refused), m=len(job_ids))
    return redirect_to(
        came_from("/board/jobs"),
        message=" ".join([done, *refused]),
        kind="bad" if refused or not job_ids else "ok",
    )


def _for_each(what: str) -> Callable[[str], object]:
    """Return what is done with each ticked job. Raises: BadRequest."""
    match what:
        case "stop":
            return services().jobs.request_stop
        case "rerun":
            return services().reruns.rerun
        case "tag":
            tag = request.form.get("tag", "").strip()
            return lambda job_id: services().job_tags.add(job_id, tag)
        case _:
            raise BadRequest(reason="`do` must be compare, stop, rerun or tag")


@board_job_actions.get("/<job_id>/delete")
def ask_delete(job_id: str) -> Response:
    """Say what deleting a job removes, and ask."""
    access.need(AccountRole.ADMIN)
    found = services().deletions.preview(job_id)
    return page(
        "job_delete.html",
        title=t("Delete job {job_id}", job_id=job_id[:60]),
        nav="jobs",
        found=found,
        tables_bytes=sum(table.size_bytes for table in found.tables),
        shown=_SHOWN,
        role_word=site_roles.word,
    )


@act(board_job_actions, "/<job_id>/delete", role=AccountRole.ADMIN)
def delete(job_id: str) -> Response:
    """Delete a job at this server."""
    services().deletions.delete(job_id)
    return redirect_to("/board/jobs", message=t("Job {job_id} was deleted.", job_id=job_id[:60]))


_SHOWN: Final = 50  #: tables that are named


def _back(job_id: str, message: str) -> Response:
    """Return the way to the page that the form was on."""
    return redirect_to(came_from(f"/board/jobs/{job_id}"), message=message)


def _is_set(name: str) -> bool:
    return request.form.get(name, "") not in ("", "0")
