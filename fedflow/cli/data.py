"""`fedflow data`: Upload this party's data to its own server."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any

import click

from fedflow.base.values import dataclass
from fedflow.cli import session, suggestions
from fedflow.cli.files import JsonFile
from fedflow.cli.groups import Nouns
from fedflow.cli.job_view import end_with, goes_on, wait_for
from fedflow.cli.output import Output, clean, moment
from fedflow.cli.session import Session, asks_server
from fedflow.cli.upload_progress import UploadProgress
from fedflow.client.client import Client
from fedflow.domain.job.warning import JobWarning
from fedflow.wire.api.jobs import JobStatusView, Submitted, Uploaded
from fedflow.wire.api.tables import TableInfo

_OWN_KEYS = ("file", "namespace", "table_name", "head", "partition", "id_delimiter", "drop")
_SHOWN_COLUMNS = 1000  #: columns that a server describes
_IGNORED_KEYS = ("work_mode", "backend", "verbose", "conf_path", "use_local_data")


@click.group(cls=Nouns)
def command() -> None:
    """Upload this party's data to its own server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadSpec:
    """A file and the table that it shall become."""

    file: Path
    namespace: str
    table_name: str
    head: bool = True
    partition: int = 4
    id_delimiter: str = ","
    drop: bool = False
    more: dict[str, Any] = field(default_factory=dict)


@command.command()
@click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="CSV, Parquet or Arrow file on this machine.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Namespace of the table.",
    shell_complete=suggestions.namespaces,
)
@click.option(
    "-t", "--table", metavar="NAME", help="Name of the table.", shell_complete=suggestions.tables
)
@click.option("--drop", is_flag=True, help="Replace a table of this name.")
@click.option("--head/--no-head", default=None, help="The first line names the columns [default].")
@click.option("--partition", type=click.IntRange(1, 1023), help="Partitions [default: 4].")
@click.option("--id-delimiter", metavar="TEXT", help="Between two cells [default: a comma].")
@click.option(
    "-c", "--conf", type=JsonFile(), help="Upload conf, as for FATE; options override it."
)
@click.option("--no-wait", is_flag=True, help="Return when the file is sent.")
@asks_server
def upload(at: Session, /, conf: dict[str, Any] | None, no_wait: bool, **options: Any) -> None:
    """Send a file (CSV, Parquet, Arrow) and create a table from it."""
    spec = upload_spec(conf or {}, options)
    size_bytes = spec.file.stat().st_size
    with UploadProgress(at.out, file=spec.file.name, size_bytes=size_bytes) as progress:
        sent = _send(at.client, spec, progress)
        view = None if no_wait else _wait(at.client, sent, progress)
    if view is None:
        _show_warnings(sent.warnings)
        at.out.done(sent, f"The file was sent; job {sent.job_id} creates the table.")
    else:
        _finish(at.client, at.out, sent, view)


@command.command()
@click.option(
    "-l", "--limit", default=20, show_default=True, type=click.IntRange(0), help="0: all."
)
@asks_server
def history(at: Session, limit: int) -> None:
    """List earlier uploads, newest first, also of tables that are gone."""
    found = at.client.upload_history(limit)
    rows = [
        (
            moment(u.created_ms), u.namespace, u.table_name, u.count, u.partitions, u.job_id,
            "gone" if u.gone else "",
        )
        for u in found
    ]  # fmt: skip
    columns = ("uploaded", "namespace", "table", "rows", "partitions", "job", "now")

    def text() -> None:
        if rows:
            at.out.table(columns, rows)
        else:
            click.echo("No uploads.")

    at.out.result(found, text)


@command.command()
@session.namespace
@session.table
@click.option("--to", required=True, metavar="PATH", help="File on the *server's* machine.")
@click.option("--delimiter", metavar="TEXT", help="Between two cells [default: a comma].")
@click.option("--wait", "wait_", is_flag=True, help="Wait for the job's end.")
@asks_server
def download(
    at: Session, *, namespace: str, name: str, to: str, delimiter: str | None, wait_: bool
) -> None:
    """Write a table to a CSV file of the server; `table download` saves it on this machine."""
    made = at.client.download(namespace, name, to, delimiter=delimiter)
    _show_job(at, made, wait_)


@command.command()
@session.namespace
@session.table
@click.option("--to-namespace", required=True, metavar="NAME", help="Namespace of the copy.")
@click.option("--to-table", "to_name", required=True, metavar="NAME", help="Name of the copy.")
@click.option("--drop", is_flag=True, help="Replace a table of this name.")
@click.option("--wait", "wait_", is_flag=True, help="Wait for the job's end.")
@asks_server
def writer(
    at: Session, *, namespace: str, name: str, to_namespace: str, to_name: str, drop: bool,
    wait_: bool,
) -> None:  # fmt: skip
    """Write a table to another one."""
    made = at.client.copy_table(
        namespace, name, to_namespace=to_namespace, to_name=to_name, drop=drop
    )
    _show_job(at, made, wait_)


def _show_job(at: Session, made: Submitted, wait_: bool) -> None:
    if wait_:
        wait_for(at.client, at.out, made.job_id)
    else:
        at.out.done(made, f"Job {made.job_id} was submitted for it.")


def upload_spec(conf: dict[str, Any], options: dict[str, Any]) -> UploadSpec:
    """Return what to upload from FATE's conf and the command's options, which win.

    Raises: click.UsageError: something is missing or of a wrong kind.
    """
    given = {"table_name" if k == "table" else k: v for k, v in options.items() if v is not None}
    if not given.pop("drop", False):
        given["drop"] = _flag(conf, "drop", 0)
    else:
        given["drop"] = True
    merged = {**conf, **given}
    for name in ("file", "namespace", "table_name"):
        if not merged.get(name):
            raise click.UsageError(f"name the {name.replace('_', ' ')}, or give a conf with it")
    partition = merged.get("partition", 4)
    if not isinstance(partition, int) or isinstance(partition, bool):
        raise click.UsageError("`partition` in the conf must be a whole number")
    file = Path(merged["file"])
    if not file.is_file():
        raise click.UsageError(f"the file {str(file)!r} does not exist")
    return UploadSpec(
        file=file,
        namespace=str(merged["namespace"]),
        table_name=str(merged["table_name"]),
        head=_flag(merged, "head", 1),
        partition=partition,
        id_delimiter=str(merged.get("id_delimiter", ",")),
        drop=bool(merged["drop"]),
        more={k: v for k, v in conf.items() if k not in _OWN_KEYS + _IGNORED_KEYS},
    )


def _send(client: Client, spec: UploadSpec, progress: UploadProgress) -> Uploaded:
    return client.upload(
        spec.file,
        namespace=spec.namespace,
        table_name=spec.table_name,
        head=spec.head,
        partition=spec.partition,
        id_delimiter=spec.id_delimiter,
        drop=spec.drop,
        more=spec.more,
        progress=progress.sent,
    )


def _wait(client: Client, sent: Uploaded, progress: UploadProgress) -> JobStatusView | None:
    """Return how the job that makes the table ended."""
    view = None
    with goes_on(sent.job_id):
        for view in client.looks(sent.job_id):
            progress.made(view)
    return view


def _finish(client: Client, out: Output, sent: Uploaded, view: JobStatusView) -> None:
    """Tell what became of an upload.

    Raises: click.exceptions.Exit: the job failed; why was printed.
    """
    _show_warnings(view.warnings)
    if not view.succeeded:
        end_with(out, view)
    table = client.table_info(sent.namespace, sent.table_name)
    out.done({"job_id": sent.job_id, "table": table, "warnings": view.warnings}, _sizes(table))


def _show_warnings(warnings: tuple[JobWarning, ...]) -> None:
    for warning in warnings:
        click.echo(f"Warning: {clean(str(warning))} {clean(warning.hint)}".rstrip(), err=True)


def _sizes(table: TableInfo) -> str:
    """Return how large a table is."""
    width = len(table.columns)
    many = "at least " if width >= _SHOWN_COLUMNS else ""
    columns = f"{many}{width} column{'' if width == 1 else 's'} beside the id"
    rows = f"{table.count} row{'' if table.count == 1 else 's'}"
    shown = f"Table {table.namespace}.{table.name} has {rows}"
    return f"{shown} and {columns if width else 'no column but the id'}."


def _flag(conf: dict[str, Any], name: str, default: int) -> bool:
    """Return a yes or no that FATE writes as 1 or 0, also 2 for no."""
    value = conf.get(name, default)
    try:
        return int(value) == 1
    except (TypeError, ValueError):
        raise click.UsageError(f"`{name}` in the conf must be 0 or 1") from None
