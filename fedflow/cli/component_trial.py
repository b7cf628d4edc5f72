"""Running a component on files in this process, for `fedflow component test`."""

from __future__ import annotations

import json
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedflow.base.errors.error import FedflowError
from fedflow.base.examples import examples_folder
from fedflow.base.values import dataclass
from fedflow.cli.output import Output, json_text
from fedflow.domain.site import Role, Site

if TYPE_CHECKING:
    from fedflow.sdk.component import ComponentSpec
    from fedflow.sdk.table import Table
    from fedflow.testing.run import RunResult

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
    port: str
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
    from fedflow.testing.trial import Trial, find_component, run_trial

    offered = find_component(options.module, folder=options.provider)
    spec = spec_of(offered)
    sites = _sites(options, spec)
    trial = Trial(
        component=offered,
        sites=sites,
        files=_files(options, spec, sites),
        params=_params(options, sites),
        port=options.port,
        label=options.label,
        raw=options.raw,
        cores=options.cores,
        timeout_s=options.timeout_s,
    )
    with tempfile.TemporaryDirectory(prefix="fedflow-trial-") as folder:
        results = run_trial(trial, Path(folder))
        shown = {site: _shown(result, rows=options.rows) for site, result in results.items()}
    out.result({site.key: one for site, one in shown.items()}, lambda: _print(out, shown))
    return all(result.error is None for result in results.values())


def _sites(options: TrialOptions, spec: ComponentSpec) -> tuple[Site, ...]:
    """Return the sites that were named, with `--site` or a file, else one per role."""
    named = [_site(text) for text in options.sites]
    if not named:
        named = [_site(text.partition("=")[0]) for text in options.files]
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


def _files(options: TrialOptions, spec: ComponentSpec, sites: Sequence[Site]) -> dict[Site, Path]:
    """Return the files that were named, else those of the example, for a module that takes data."""
    found: dict[Site, Path] = {}
    for text in options.files:
        at, separator, path = text.partition("=")
        if not separator or _site(at) not in sites:
            raise click.UsageError(f"--data {text!r}: it is SITE=FILE with a site of the run")
        found[_site(at)] = Path(path)
    examples = examples_folder()
    if found or not spec.data_ports or examples is None:
        return found
    return {
        site: examples / "data" / _EXAMPLES[site.role] for site in sites if site.role in _EXAMPLES
    }


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
    if result.error is not None:
        return {"error": _error(result.error), "metrics": dict(_metrics(result))}
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
        "passed": outputs.passed,
    }


def _error(error: Exception) -> dict[str, Any]:
    if isinstance(error, FedflowError):
        return {"name": error.name, "message": error.message, "hint": error.hint, "traceback": ""}
    text = "".join(traceback.format_exception(error))
    name = type(error).__name__
    return {"name": name, "message": f"{name}: {error}", "hint": "", "traceback": text}


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
        error = one.get("error")
        out.note(f"{site}: {'failed' if error else 'success'}")
        if error:
            out.note(error["traceback"] or f"  {error['message']}")
        for number, table in enumerate(one.get("data", ())):
            if table is not None:
                title = f"output {number}: {table['rows']} rows x {len(table['columns'])} columns"
                out.table(table["columns"], table["head"], title=title)
        for name in ("model", "summary", "metrics"):
            if one.get(name):
                out.note(f"{name}  {json_text(one[name])}")
