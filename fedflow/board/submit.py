"""`/board/submit`: write a job, see what is wrong with it before it is sent, send it once."""

from __future__ import annotations

from dataclasses import replace

from flask import Response, request

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import IdempotencyKeyReused
from fedflow.board import drafts, findings
from fedflow.board.access import may
from fedflow.board.drafts import Draft
from fedflow.board.findings import SHOWN, Findings
from fedflow.board.forms import act
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, fragment, json_answer, page, redirect_to
from fedflow.board.urls import site_url
from fedflow.domain.administration.accounts import AccountRole
from fedflow.web.context import services

board_submit = board_blueprint("board_submit", "/submit")
board_submit.before_request_funcs.setdefault(None, []).insert(0, drafts.allow_long_texts)


@board_submit.get("")
def form() -> Response:
    """Show the form: empty, with an example, or with a copy of an earlier job."""
    if not may("operator"):
        return _shown(Draft(), Findings(is_empty=True))
    source, example = request.args.get("from"), request.args.get("example")
    if source:
        draft = drafts.of_job(source)
    elif example:
        draft = drafts.of_example(example)
    else:
        draft = drafts.fresh()
    return _shown(draft, findings.look(draft))


@act(board_submit, "", role=AccountRole.OPERATOR)
def send() -> Response:
    """Do what the pressed button says: submit the job, check it, ask its parties, open files."""
    draft = drafts.of_form(request.form)
    chosen = request.form.get("do", "send")
    if chosen == "open":
        draft = drafts.with_files(draft, request.files.getlist("files"))
    if chosen in ("open", "check", "ask"):
        return _shown(draft, findings.look(draft, ask=chosen == "ask"))
    if draft.is_empty or draft.long or any(not one.is_json for one in draft.read().values()):
        return _shown(draft, findings.look(draft), status=400)
    return _submit(draft)


@act(board_submit, "/findings", role=AccountRole.OPERATOR)
def look() -> Response:
    """Return what is found in the texts of the form, for the page that they are typed in."""
    found = findings.look(drafts.of_form(request.form), ask=request.form.get("do") == "ask")
    return fragment("submit_findings.html", found=found, shown=SHOWN)


@act(board_submit, "/open", role=AccountRole.OPERATOR)
def open_files() -> Response:
    """Return the texts of files as the form would hold them."""
    draft = drafts.with_files(Draft(), request.files.getlist("files"))
    texts = {"dsl": draft.dsl, "conf": draft.conf}
    return json_answer(
        {
            "texts": {name: text for name, text in texts.items() if text},
            "faults": list(draft.faults),
        }
    )


def _submit(draft: Draft) -> Response:
    read = draft.read()
    if any(one.faults for one in read.values()):  # a name that stands twice
        return _shown(draft, findings.look(draft), status=400)
    try:
        job = services().submissions.submit(
            read["dsl"].value, read["conf"].value, keys=[_key(draft, read["conf"].value)]
        )
    except IdempotencyKeyReused as exc:
        again = replace(draft, key=drafts.fresh().key)
        return _shown(again, findings.refused(draft, exc), status=exc.http)
    except FedflowError as exc:
        return _shown(draft, findings.refused(draft, exc), status=exc.http)
    message = t("Job {job_id} was submitted.", job_id=job.job_id)
    if job.warnings:
        message += " " + t("It has {n} warnings, see below.", n=len(job.warnings))
    return redirect_to(site_url(job.job_id, job.initiator), message=message)


def _key(draft: Draft, conf: object) -> str | None:
    """Return the form's key, unless the conf brings one of its own."""
    section = conf.get("job_parameters") if isinstance(conf, dict) else None
    common = section.get("common", section) if isinstance(section, dict) else None
    own = common.get("idempotency_key") if isinstance(common, dict) else None
    return draft.key if own is None else None


def _shown(draft: Draft, found: Findings, *, status: int = 200) -> Response:
    return page(
        "submit.html",
        title=t("Submit a job"),
        nav="submit",
        status=status,
        draft=draft,
        found=found,
        shown=SHOWN,
        examples=services().administration.templates.jobs(),
    )
