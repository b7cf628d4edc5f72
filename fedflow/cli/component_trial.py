"""Running a component on files in this process, for `fedflow component test`."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fedflow.base.errors.error import FedflowError
from fedflow.base.examples import examples_folder
from fedflow.base.values import dataclass
from fedflow.cli.output import Output, json_text
from fedflow.domain.site import Role, Site

if TYPE_CHECKING:
    from fedflow.sdk.component import ComponentSpec
    from fedflow.sdk.table import Table
    from fedflow.testing.run import RunResult
    from fedflow.testing.trial import Trial

_USUAL_IDS = {Role.GUEST: "9999", Role.HOST: "10000", Role.ARBITER: "10000", Role.LOCAL: "0"}
_EXAMPLES = {Role.GUEST: "breast_hetero_guest.csv", Role.HOST: "breast_hetero_host.csv"}


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialOptions:
    """The options of the command, as they were written."""

    module: str
    provider: Path | None
    sites: Sequence[str]
    files: Sequence[str]
    params: Sequence[str]
    port: str | None
    predict: bool
    label: str
    raw: bool
    rows: int
    cores: int
    timeout_s: float


def try_component(options: TrialOptions, out: Output) -> bool:
    """Run the component and print what each site made; tell whether all succeeded.

    Raises: click.UsageError, UnknownComponent, ProviderRefused, BadData.
    """
    from fedflow.sdk.component import spec_of
    from fedflow.testing.trial import Trial, find_component

    offered = find_component(options.module, folder=options.provider)
    spec = spec_of(offered)
    if options.predict and "test_data" not in spec.data_ports:
        raise click.UsageError(f"--predict: {spec.module} takes no test_data")
    sites = _sites(options, spec)
    trial = Trial(
        component=offered,
        sites=sites,
        files=_files(options, spec, sites),
        params=_params(options, sites),
        label=options.label,
        raw=options.raw,
        cores=options.cores,
        timeout_s=options.timeout_s,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="fedflow-trial-") as folder, _heard():
            shown = _run(trial, Path(folder), options)
    except TimeoutError as exc:
        late = str(exc)
        out.result({"error": late}, lambda: out.note(f"failed: {late}"))
        return False
    out.result({site.key: one for site, one in shown.items()}, lambda: _print(out, shown))
    return not any("error" in one or "error" in one["predict"] for one in shown.values())


def _run(trial: Trial, folder: Path, options: TrialOptions) -> dict[Site, dict[str, Any]]:
    """Return what each site made; with `--predict` also what it made of its model.

    Raises: BadData: a file cannot be read. TimeoutError.
    """
    from dataclasses import replace

    from fedflow.testing.trial import run_trial

    results = run_trial(trial, folder / "run")
    shown = {site: _shown(result, rows=options.rows) for site, result in results.items()}
    models = {s: r.outputs.model for s, r in results.items() if r.outputs and r.outputs.model}
    again: dict[Site, RunResult] = {}
    if options.predict and all(result.error is None for result in results.values()):
        second = replace(
            trial,
            files={
                site: {"test_data": next(iter(at.values()))} for site, at in trial.files.items()
            },
            models={site: {"trained": model} for site, model in models.items()},
        )
        again = run_trial(second, folder / "predict")
    return {
        site: {**one, "predict": _shown(again[site], rows=options.rows) if site in again else {}}
        for site, one in shown.items()
    }


@contextmanager
def _heard() -> Iterator[None]:
    """Show on stderr what components log and print meanwhile."""
    logger, handler = logging.getLogger("fedflow.task"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    handler.addFilter(_with_site)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


def _with_site(record: logging.LogRecord) -> bool:
    """Let a line begin with its site instead of its logger."""
    record.name = record.name.rpartition(".")[2].replace("-", " ")
    return True


def _sites(options: TrialOptions, spec: ComponentSpec) -> tuple[Site, ...]:
    """Return the sites that were named, with `--site` or a file, else one per role."""
    named = [_site(text) for text in options.sites]
    if not named:
        named = [_site(text.partition("=")[0].partition(":")[0]) for text in options.files]
        present = {site.role for site in named}
        usual = tuple(r for r in spec.roles if r is not Role.LOCAL) or spec.roles
        named += [_site(role.value) for role in usual if role not in present]
    if wrong := [str(site) for site in named if site.role not in spec.roles]:
        raise click.UsageError(f"{spec.module} does not run at {', '.join(wrong)}")
    order = list(Role)
    return tuple(dict.fromkeys(sorted(named, key=lambda site: order.index(site.role))))


def _site(text: str) -> Site:
    role, _, party = text.partition("-")
    try:
        return Site.from_key(f"{role}-{party or _USUAL_IDS[Role(role)]}")
    except ValueError:
        raise click.UsageError(f"{text!r} is no site, such as guest or host-10001") from None


def _files(
    options: TrialOptions, spec: ComponentSpec, sites: Sequence[Site]
) -> dict[Site, dict[str, Path]]:
    """Return the files that were named, else those of the example, for a module that takes data."""
    usual = options.port or next(iter(spec.data_ports), "data")
    found: dict[Site, dict[str, Path]] = {}
    for text in options.files:
        at, separator, path = text.partition("=")
        name, _, port = at.partition(":")
        if not separator or _site(name) not in sites:
            raise click.UsageError(
                f"--data {text!r}: it is SITE=FILE or SITE:PORT=FILE, a site of the run"
            )
        found.setdefault(_site(name), {})[port or usual] = Path(path)
    named = {port for files in found.values() for port in files} | {usual}
    if spec.data_ports and (wrong := sorted(named - set(spec.data_ports))):
        known = ", ".join(spec.data_ports)
        raise click.UsageError(f"{spec.module} has no port {', '.join(wrong)}, but {known}")
    examples = examples_folder()
    if found or not spec.data_ports or examples is None:
        return found
    folder = examples / "data"
    return {s: {usual: folder / _EXAMPLES[s.role]} for s in sites if s.role in _EXAMPLES}


def _params(options: TrialOptions, sites: Sequence[Site]) -> dict[Site, dict[str, Any]]:
    """Return each site's parameters: those for all, and its own over them."""
    found: dict[Site, dict[str, Any]] = {site: {} for site in sites}
    for text in options.params:
        at, separator, value = text.partition("=")
        is_own = bool(separator) and not text.lstrip().startswith(("{", "@"))
        if is_own and _site(at) not in found:
            raise click.UsageError(f"--params {text!r}: {_site(at)} does not run it")
        given = _json(value if is_own else text)
        for site in (_site(at),) if is_own else sites:
            found[site] |= given
    return found


def _json(text: str) -> dict[str, Any]:
    try:
        given = json.loads(Path(text[1:]).read_text("utf-8") if text.startswith("@") else text)
    except OSError as exc:
        raise click.UsageError(f"--params {text!r}: {exc.strerror}") from None
    except ValueError as exc:
        raise click.UsageError(f"--params {text!r} is no JSON: {exc}") from None
    if not isinstance(given, dict):
        raise click.UsageError(f"--params {text!r} is no JSON object")
    return given


def _shown(result: RunResult, *, rows: int) -> dict[str, Any]:
    """Return what one site's run left, as plain JSON."""
    warnings = [msgspec.to_builtins(warning) for warning in result.warnings]
    if result.error is not None:
        failed = {"error": _error(result.error), "metrics": dict(_metrics(result))}
        return {**failed, "warnings": warnings}
    outputs = result.outputs
    if outputs is None:
        return {}
    model = outputs.model
    return {
        "data": [None if table is None else _table(table, rows) for table in outputs.data],
        "model": None
        if model is None
        else {model.meta_name: model.meta, model.param_name: model.param},
        "caches": len(outputs.cache),
        "summary": dict(outputs.summary),
        "metrics": dict(_metrics(result)),
        "warnings": warnings,
        "passed": outputs.passed,
    }


def _error(error: Exception) -> dict[str, Any]:
    """Return an error with its place in the author's code; expected ones need no traceback."""
    from fedflow.testing.trial import place_and_traceback

    place, text = place_and_traceback(error)
    if isinstance(error, FedflowError):
        message, text = f"{error.name}: {error.message}{place}", ""
        return {"name": error.name, "message": message, "hint": error.hint, "traceback": text}
    name = type(error).__name__
    return {"name": name, "message": f"{name}: {error}{place}", "hint": "", "traceback": text}


def _metrics(result: RunResult) -> Iterator[tuple[str, Any]]:
    for (namespace, name), one in result.metrics.items():
        content = {"type": one.metric_type, "points": one.points, "meta": one.meta}
        yield f"{namespace}/{name}", content


def _table(table: Table, rows: int) -> dict[str, Any]:
    head = table.head(rows).to_pydict()
    return {
        "rows": table.count,
        "columns": list(table.schema.names),
        "head": [list(row) for row in zip(*head.values(), strict=True)],
    }


def _print(out: Output, shown: Mapping[Site, Mapping[str, Any]]) -> None:
    for site, one in shown.items():
        _print_one(out, str(site), one)
        if one.get("predict"):
            _print_one(out, f"{site}, predict", one["predict"])


def _print_one(out: Output, title: str, one: Mapping[str, Any]) -> None:
    error = one.get("error")
    out.note(f"{title}: {'failed' if error else 'success'}")
    if error:
        out.note(error["traceback"] or f"  {error['message']}")
    for w in one.get("warnings", ()):
        out.note(f"  warning: {w['path']}: {w['message']} ({w['code']}) {w['hint']}".rstrip())
    for number, table in enumerate(one.get("data", ())):
        if table is not None:
            title = f"output {number}: {table['rows']} rows x {len(table['columns'])} columns"
            out.table(table["columns"], table["head"], title=title)
    for name in ("model", "summary", "metrics"):
        if one.get(name):
            out.note(f"{name}  {json_text(one[name])}")
