"""What one can do with tables: upload, enable, disable, delete, take home."""

from __future__ import annotations

from typing import Any

from flask import Response, request, url_for

from fedflow.app.initiator.submissions import Submitted
from fedflow.base.errors.requests import MissingArgument, NotSignedIn
from fedflow.board.access import need, viewer
from fedflow.board.forms import CSRF_FIELD, act, check_form
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, is_scripted, json_answer, page, redirect_to
from fedflow.board.urls import site_url
from fedflow.domain.administration.accounts import AccountRole
from fedflow.domain.data.table_names import NAME_LIMIT
from fedflow.web import downloads
from fedflow.web.context import built, services
from fedflow.web.spool import UploadSpool

board_table_actions = board_blueprint("board_table_actions", "/tables")

_FLAGS = ("head", "drop", "extend_sid")
_TEXTS = ("namespace", "table_name", "partition", "id_delimiter")


# --- upload ---------------------------------------------------------------------------------------


@board_table_actions.get("/upload")
def upload_form() -> Response:
    """Return the form."""
    need(AccountRole.OPERATOR)
    most = built().settings.upload_bytes
    return page("upload.html", title=t("Upload a table"), nav="tables", most=most)


@board_table_actions.post("/upload")
def upload() -> Response:
    """Receive a file and start the job that makes a table of it; what is refused is deleted.

    The file is not read before it is known who sends it; a form's token comes with its fields.
    """
    if not viewer().is_known:
        raise NotSignedIn
    need(AccountRole.OPERATOR)
    spool = UploadSpool(services().data.uploads.spool_dir, max_bytes=built().settings.upload_bytes)
    try:
        fields = spool.receive()
        check_form(str(fields.get(CSRF_FIELD, "")))
        if spool.path is None or not spool.path.stat().st_size:
            raise MissingArgument(names="file")
        job = services().data.uploads.submit(_parameters(fields), spool.path)
    except BaseException:
        spool.discard()
        raise
    finally:
        spool.close()
    url = _job_url(job)
    if is_scripted():
        return json_answer({"url": url})
    return redirect_to(url, message=t("The file was received. This job creates a table from it."))


def _parameters(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an upload; a box that is not ticked is not sent."""
    texts = {name: fields[name].strip() or None for name in _TEXTS if name in fields}
    given = {name: value for name, value in texts.items() if value is not None}
    return {"partition": "4", **given, **{name: int(name in fields) for name in _FLAGS}}


def _job_url(job: Submitted) -> str:
    return site_url(job.job_id, job.initiator)


# --- one table ------------------------------------------------------------------------------------


def _names() -> tuple[str, str]:
    """Return namespace and name of the form or the address. Raises: MissingArgument."""
    given = request.form if request.method == "POST" else request.args
    namespace, name = given.get("namespace"), given.get("name")
    if namespace is None or name is None or max(len(namespace), len(name)) > NAME_LIMIT:
        raise MissingArgument(names="namespace,name")
    return namespace, name


@act(board_table_actions, "/disable")
def disable() -> Response:
    """Keep jobs from reading a table. Raises: TableNotFound."""
    namespace, name = _names()
    services().data.tables.set_disabled(namespace, name, disabled=True)
    return _back(namespace, name, t("Jobs can not read this table any more."))


@act(board_table_actions, "/enable")
def enable() -> Response:
    """Let jobs read a table again. Raises: TableNotFound."""
    namespace, name = _names()
    services().data.tables.set_disabled(namespace, name, disabled=False)
    return _back(namespace, name, t("Jobs can read this table again."))


@act(board_table_actions, "/delete", role=AccountRole.ADMIN)
def delete() -> Response:
    """Delete a table. Raises: TableNotFound."""
    namespace, name = _names()
    services().data.tables.drop(namespace, name)
    message = t("The table {name} was deleted.", name=f"{namespace} / {name}")
    return redirect_to(url_for("board_tables.listed"), message=message)


def _back(namespace: str, name: str, message: str) -> Response:
    return redirect_to(
        url_for("board_tables.one", namespace=namespace, name=name), message=message
    )  # fmt: skip


@board_table_actions.get("/download")
def table_download() -> Response:
    """Return a table as tar.gz. Raises: NoData, RoleNeeded."""
    need(AccountRole.OPERATOR)
    namespace, name = _names()
    return downloads.made(
        lambda content: services().data.tables.write_archive(namespace, name, content, head=True),
        f"table_{downloads.file_word(namespace)}_{downloads.file_word(name)}.tar.gz",
    )
