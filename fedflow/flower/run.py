"""One site's run of a Flower project: the ServerApp, or the ClientApp."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from flwr.app import Context as FlowerContext
from flwr.app import RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from fedflow.flower.arrays import MODEL_BYTES, Arrays, arrays_to_json, arrays_to_table
from fedflow.flower.client import answer_messages
from fedflow.flower.grid import FederationGrid, GridLimits
from fedflow.flower.messages import SERVER_NODE, identify
from fedflow.flower.params import FlowerParams, client_sites, server_site
from fedflow.flower.project import Kind, Project, Scalar, installed_version
from fedflow.flower.results import ReplyMetrics, ServerResults
from fedflow.flower.tables import table_files
from fedflow.sdk import ComponentFailed, Context, Model, Outputs

_FILES_NAMED: Final = 100  #: of those that an app wrote, in its summary
_APPS: Final[dict[Kind, Any]] = {"serverapp": ServerApp, "clientapp": ClientApp}


def run_app(ctx: Context) -> Outputs:
    """Run this site's app to its end.

    Raises: ComponentFailed, BadData, PeerFailed; what a ServerApp raises.
    """
    params: FlowerParams = ctx.params
    _log_as_the_task_does()
    project = params.project
    server = server_site(params.server_role, ctx.sites)
    return _serve(ctx, project) if ctx.site == server else _take_part(ctx, project)


def _serve(ctx: Context, project: Project) -> Outputs:
    params: FlowerParams = ctx.params
    clients = client_sites(params.server_role, ctx.sites)
    context = _context(ctx, project, node_id=SERVER_NODE, number=None)
    results = ServerResults(ctx.tracker)
    grid = FederationGrid(
        ctx.federation,
        component=ctx.component,
        nodes={SERVER_NODE + 1 + i: site for i, site in enumerate(clients)},
        run_id=context.run_id,
        limits=_limits(ctx),
        hello=_hello(project),
        on_replies=results.record,
    )
    app = _loaded(project, "serverapp", ctx)
    before = _files(ctx.work_dir)
    grid.open()
    with results.observed():
        app(grid=grid, context=context)
    grid.stop()
    results.record()
    counts = grid.counts
    if counts.messages and not counts.replies:
        reason = f"none of {counts.messages} messages had a reply without an error; see the log"
        raise ComponentFailed(component=ctx.component, reason=reason)
    summary = {
        "rounds": results.rounds,
        "messages": counts.messages,
        "replies": counts.replies,
        "errors": counts.errors,
        "late": counts.late,
        "left": counts.left,
        "metrics": results.latest,
        **_written(ctx.work_dir, before),
    }
    arrays = results.arrays(context.state, grid.last_arrays)
    data = (arrays_to_table(arrays, ctx.tables),) if ctx.output_names and arrays else ()
    model = _model(ctx, project, arrays, rounds=results.rounds, config=context.run_config)
    return Outputs(data=data, model=model, summary=summary)


def _take_part(ctx: Context, project: Project) -> Outputs:
    params: FlowerParams = ctx.params
    clients = client_sites(params.server_role, ctx.sites)
    number = clients.index(ctx.site)
    context = _context(ctx, project, node_id=SERVER_NODE + 1 + number, number=number)
    before = _files(ctx.work_dir)
    counts = answer_messages(
        _loaded(project, "clientapp", ctx),
        context,
        federation=ctx.federation,
        server=server_site(params.server_role, ctx.sites),
        hello=_hello(project),
        metrics=ReplyMetrics(ctx.tracker),
    )
    summary = {
        "messages": counts.messages,
        "errors": counts.errors,
        **_written(ctx.work_dir, before),
    }
    return Outputs(summary=summary)


def _context(ctx: Context, project: Project, *, node_id: int, number: int | None) -> FlowerContext:
    """Return what Flower gives to an app; `number` is the partition of a client."""
    params: FlowerParams = ctx.params
    run_id = (
        int.from_bytes(hashlib.sha256(f"{ctx.job_id}/{ctx.component}".encode()).digest()[:8]) >> 1
    )
    identify(run_id, node_id)
    node_config: dict[str, Scalar] = table_files(ctx, params.data_format)
    if number is not None:
        node_config["partition-id"] = number
        node_config["num-partitions"] = len(client_sites(params.server_role, ctx.sites))
    return FlowerContext(
        run_id=run_id,
        node_id=node_id,
        node_config={**node_config, **params.node_config},
        state=RecordDict(),
        run_config=project.run_config(params.run_config),
    )


def _loaded(project: Project, kind: Kind, ctx: Context) -> Any:
    """Return an app. Raises: ComponentFailed: it is none; whatever importing it raises."""
    app = project.load(kind)
    if not isinstance(app, _APPS[kind]):
        reason = f"{kind} of the project is a {type(app).__name__}, not a {_APPS[kind].__name__}"
        raise ComponentFailed(component=ctx.component, reason=reason)
    return app


def _limits(ctx: Context) -> GridLimits:
    """Return how long the ServerApp waits, and for how many; an elastic job may say more."""
    params: FlowerParams = ctx.params
    needed, round_s, elastic = params.min_nodes, params.round_timeout_s, ctx.elastic
    if elastic is not None:
        own = 1 if params.server_role == "guest" else 0  # counts as a party and runs no ClientApp
        needed = max(needed, elastic.min_parties - own)
        round_s = min(round_s, elastic.round_deadline_s)
    return GridLimits(
        round_timeout_s=round_s, start_timeout_s=params.start_timeout_s, min_nodes=needed
    )


def _written(folder: Path, before: Mapping[str, int]) -> dict[str, Any]:
    """Return what the app wrote below the folder that it works in, and where that is."""
    new = {name: size for name, size in _files(folder).items() if before.get(name) != size}
    if not new:
        return {}
    return {"files": dict(islice(new.items(), _FILES_NAMED)), "folder": str(folder)}


def _files(folder: Path) -> dict[str, int]:
    """Return path -> bytes of the files below a folder; links are left out."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.stat().st_size for path in found}


def _hello(project: Project) -> dict[str, str]:
    return {"flwr": installed_version(), "app": project.name, "version": project.version}


def _model(
    ctx: Context, project: Project, arrays: Arrays, *, rounds: int, config: Mapping[str, Scalar]
) -> Model | None:
    """Return the final arrays as a model; None: there are none, or they are too large for one."""
    size = sum(array.nbytes for array in arrays.values())
    if size > MODEL_BYTES:
        kept = "the output table has them" if ctx.output_names else "they are not stored"
        message = f"the arrays have {size} bytes, a model at most {MODEL_BYTES}; {kept}"
        ctx.warn(
            "ModelTooLarge", message, hint="Give the component a data output: {data: [arrays]}."
        )
        return None
    if not arrays:
        return None
    params: FlowerParams = ctx.params
    meta = {
        "app": project.name,
        "version": project.version,
        "flwr": installed_version(),
        "run_config": dict(config),
        "server_role": params.server_role,
    }
    param = {"rounds": rounds, "arrays": arrays_to_json(arrays)}
    return Model(meta_name="FlowerAppMeta", param_name="FlowerAppParam", meta=meta, param=param)


def _log_as_the_task_does() -> None:
    """Let Flower's lines go to the task's log instead of the terminal."""
    logger = logging.getLogger("flwr")
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
    logger.propagate = True
