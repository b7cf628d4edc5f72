"""`fedflow demo`: Run a federated job between two parties on this machine.

It starts a server per party, uploads to each its own data, submits the example job, shows how it
gets on and what came of it, and ends all that it started.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from fedflow.base.clock import SystemClock
from fedflow.base.errors.error import FedflowError
from fedflow.base.examples import examples_folder
from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.cli import session
from fedflow.cli.demo_comparison import (
    ARBITER_SITE,
    GUEST_SITE,
    LEARNER,
    Comparison,
    Quality,
    compare,
)
from fedflow.cli.demo_servers import GUEST, HOST, DemoServers, demo_servers
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.job_view import show_job
from fedflow.cli.output import Output, duration, number, place
from fedflow.cli.progress import JobProgress
from fedflow.client.client import Client
from fedflow.domain.site import Role, Site
from fedflow.wire.api.jobs import JobStatusView

SCORES = "evaluation_0"
_TABLES = {GUEST: "breast_hetero_guest", HOST: "breast_hetero_host"}
_NAMESPACE = "experiment"


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputTable:
    """A table that a component left at one site."""

    component: str
    name: str
    rows: int | None
    columns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteResult:
    """What one site has when the job has ended."""

    site: str
    data: str  #: the folder of its server
    auc: float | None
    ks: float | None
    has: str
    tables: tuple[OutputTable, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoResult:
    """What the demo found; durations in seconds."""

    job: JobStatusView
    sites: tuple[SiteResult, ...]
    federated: Quality
    comparison: Comparison
    seconds: dict[str, float]
    home: str | None  #: None: it was deleted


@click.command()
@click.option("--rounds", type=click.IntRange(1, 1000), help="Iterations at most [example: 30].")
@click.option(
    "--key-length", default=2048, show_default=True, type=click.IntRange(1024, 4096),
    help="Paillier key, bits; 1024 is fast and not safe.",
)  # fmt: skip
@click.option("--standalone", is_flag=True, help="One server that hosts both parties.")
@click.option("--keep", is_flag=True, help="Keep the folder with the servers' data.")
@click.option(
    "--board",
    is_flag=True,
    help="Keep the servers until Enter, to see the job in a browser.",
)
@session.as_json
def command(
    *, rounds: int | None, key_length: int, standalone: bool, keep: bool, board: bool, as_json: bool
) -> None:
    """Run a federated job between two parties on this machine.

    Guest 9999 has labels and 10 columns, host 10000 has 20 columns of the same people. They find
    their common ids and train a logistic regression without showing each other a row.
    """
    out = Output(as_json=as_json)
    dsl, conf, data = _load(find_examples())
    learner = conf["component_parameters"]["common"][LEARNER]
    learner["encrypt_param"]["key_length"] = key_length
    if rounds is not None:
        learner["max_iter"] = rounds
    with _ends_on_signals(), _home(keep=keep) as home:
        watch = _StopWatch()
        out.note("Starting " + ("one server" if standalone else "a server for each party") + " ...")
        with demo_servers(home, standalone=standalone) as servers:
            for server in servers.all:
                out.note(f"  {server.name}: {server.client.address}, its data in {server.home}")
            watch.lap("start")
            _upload(servers, data, out)
            watch.lap("upload")
            view = _run(servers, out, dsl=dsl, conf=conf)
            watch.lap("job")
            if not view.succeeded:
                out.result(view, lambda: show_job(out, view))
                raise click.exceptions.Exit(CliExitCode.JOB_FAILED)
            comparison = compare(servers, view.job_id, data=data, learner=learner)
            watch.lap("comparison")
            sites = tuple(_site_result(servers, view, site, comparison) for site in view.sites)
            if board:
                _show_board(servers, view, out)
                watch.lap("board")
        watch.lap("stop")
    guest = next(s for s in sites if s.site == GUEST_SITE.key)
    result = DemoResult(
        job=view,
        sites=sites,
        federated=Quality(model="federated, by fedflow", auc=guest.auc or 0.0, ks=guest.ks or 0.0),
        comparison=comparison,
        seconds=watch.laps,
        home=str(home) if keep else None,
    )
    out.result(result, lambda: _show(out, result))


def _show_board(servers: DemoServers, view: JobStatusView, out: Output) -> None:
    """Say where the board of each party shows the job, and wait for Enter or the end of input."""
    out.note("The job on the board of each party:")
    for server in servers.all:
        out.note(f"  {server.name}: {server.client.address}/board/jobs/{view.job_id}")
    out.note("Press Enter to stop the servers ...")
    sys.stdin.readline()


def find_examples() -> Path:
    """Return the folder of the examples. Raises: click.UsageError: there is none."""
    folder = examples_folder()
    if folder is None:
        raise click.UsageError("this installation has no examples; run the demo in a checkout")
    return folder


def _load(examples: Path) -> tuple[dict[str, Any], dict[str, Any], Path]:
    dsl = msgspec.json.decode((examples / "hetero_lr" / "dsl.json").read_bytes())
    conf = msgspec.json.decode((examples / "hetero_lr" / "conf.json").read_bytes())
    return dsl, conf, examples / "data"


# --- the steps ----------------------------------------------------------------------------------


def _upload(servers: DemoServers, data: Path, out: Output) -> None:
    """Upload to each party's own server its own file."""
    sent = [
        (party, servers.of(party).client.upload(
            data / f"{table}.csv", namespace=_NAMESPACE, table_name=table, drop=True
        ))
        for party, table in _TABLES.items()
    ]  # fmt: skip
    for party, one in sent:
        client = servers.of(party).client
        view = client.wait(one.job_id, timeout_s=60)
        if not view.succeeded:
            show_job(out, view)
            raise click.exceptions.Exit(CliExitCode.JOB_FAILED)
        table = client.table_info(one.namespace, one.table_name)
        out.note(f"  party {party} uploaded {table.namespace}.{table.name}: {table.count} rows")


def _run(
    servers: DemoServers, out: Output, *, dsl: dict[str, Any], conf: dict[str, Any]
) -> JobStatusView:
    """Submit the job at the guest and wait for its end; stop it if this process shall end."""
    client = servers.guest.client
    job_id = client.submit(dsl, conf).job_id
    try:
        with JobProgress(out) as progress:
            return client.wait(job_id, on_change=progress)
    except BaseException:
        with suppress(FedflowError, KeyboardInterrupt):
            Client(client.address, timeout_s=5.0).stop(job_id)
        raise


def _site_result(
    servers: DemoServers, view: JobStatusView, key: str, comparison: Comparison
) -> SiteResult:
    site = Site.from_key(key)
    server = servers.of(PartyId(site.party_id))
    scores: dict[Any, Any] = {}
    for metric in server.client.metrics(view.job_id, SCORES, site=site):
        if metric.kind == "EVALUATION_SUMMARY":
            scores.update(metric.points)
    tables = tuple(
        OutputTable(component=name, name=t.name, rows=t.total, columns=len(t.header))
        for name in view.components
        if any(task.component == name and task.site == key for task in view.tasks)
        for t in server.client.output_data(view.job_id, name, site=site)
    )
    return SiteResult(
        site=key,
        data=str(server.home),
        auc=scores.get("auc"),
        ks=scores.get("ks"),
        has=_belongings(server.client, view, site, comparison),
        tables=tables,
    )


def _belongings(client: Client, view: JobStatusView, site: Site, comparison: Comparison) -> str:
    if site == ARBITER_SITE or site.role is Role.ARBITER:
        first, last = comparison.losses[0], comparison.losses[-1]
        count = comparison.iterations
        return f"the key pair; the loss of {count} iterations, {first:.4f} to {last:.4f}"
    share = client.model(view.job_id, LEARNER, site=site)
    weights = len(share.param["weight"]) if share else 0
    if site.role is Role.GUEST:
        return f"{weights} weights and the intercept; labels, predictions and scores"
    return f"{weights} weights; no labels, so no scores"


# --- what is printed ------------------------------------------------------------------------------


def _show(out: Output, result: DemoResult) -> None:
    comparison = result.comparison
    out.note("\nWhat each party has:")
    rows = [(place(s.site), s.auc, s.ks, s.has) for s in result.sites]
    out.table(("site", "AUC", "KS", "has"), rows)
    out.note("\nBeside other ways to train on the same rows:")
    models = (result.federated, comparison.in_clear, comparison.scikit_learn)
    out.table(("model", "AUC", "KS"), [(m.model, f"{m.auc:.6f}", f"{m.ks:.6f}") for m in models])
    out.note(
        f"The loss of each of {comparison.iterations} iterations equals that of the algorithm in"
        f" the clear within {number(comparison.loss_error)} (relative), the weights within"
        f" {number(comparison.weight_error)}."
    )
    out.note("\nOutput tables:")
    tables = [
        (place(s.site), t.component, t.name, t.rows, t.columns)
        for s in result.sites
        for t in s.tables
    ]
    out.table(("site", "component", "output", "rows", "columns"), tables)
    out.note("\nTime, seconds from a component's start to its end at each site:")
    out.table(("component", *(place(s) for s in result.job.sites)), _times(result.job))
    laps = ", ".join(f"{name} {duration(seconds)}" for name, seconds in result.seconds.items())
    out.note(f"\nAll together: {laps}.")
    if result.home is None:
        out.note("The servers were stopped, and their data were deleted; --keep keeps them.")
        return
    out.note(f"The servers were stopped. Their data are in {result.home}:")
    for folder in dict.fromkeys(s.data for s in result.sites):
        out.note(f"  tables in {folder}/tables, logs in {folder}/logs/{result.job.job_id}")


def _times(view: JobStatusView) -> list[list[Any]]:
    took = {(t.component, t.site): t.elapsed_s for t in view.tasks}
    return [
        [name, *(_seconds(took.get((name, site))) for site in view.sites)]
        for name in view.components
    ]


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


# --- surroundings -----------------------------------------------------------------------------


class _StopWatch:
    """Measures laps in seconds."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._last_s = self._clock.monotonic_s()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now_s = self._clock.monotonic_s()
        self.laps[name] = round(now_s - self._last_s, 3)
        self._last_s = now_s


@contextmanager
def _home(*, keep: bool) -> Iterator[Path]:
    """Give a new folder, and delete it at the end unless it shall be kept."""
    home = Path(tempfile.mkdtemp(prefix="fedflow-demo-"))
    try:
        yield home
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _ends_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end this process as Ctrl-C does: after everything was stopped."""
    numbers = (signal.SIGTERM, signal.SIGHUP)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
