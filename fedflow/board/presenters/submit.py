"""What the submit page shows of a job before it is sent: mistakes, and what each site gets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

from fedflow.base.errors.documents import Problem
from fedflow.base.values import dataclass
from fedflow.board.presenters.json_text import JsonText, Lines, browser_offset, keys_of
from fedflow.domain.job.document import copy_json
from fedflow.domain.job.resources import demand_at
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.site import Site

MAX_TABLES: Final = 20  #: tables of one site that are named

Field = Literal["dsl", "conf"]
FIELDS: Final[tuple[Field, ...]] = ("dsl", "conf")

_DSL_MEMBERS: Final = ("job_dsl", "dsl")
_CONF_MEMBERS: Final = ("job_runtime_conf", "runtime_conf", "conf")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """A place in one of the two texts: line and column from 1, offsets as browsers count."""

    field: Field
    line: int
    column: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """One thing to fix."""

    message: str
    spot: Spot | None
    path: str = ""
    rule: str = ""


def spot(field: Field, text: str, start: int, end: int, lines: Lines | None = None) -> Spot:
    """Return the place of some characters of a text."""
    line, column = (lines or Lines(text)).at(start)
    begin = browser_offset(text, start)
    return Spot(
        field=field, line=line, column=column, start=begin,
        end=begin + browser_offset(text[start:end], end - start),
    )  # fmt: skip


def mistakes(problems: Iterable[Problem], texts: Mapping[Field, JsonText]) -> list[Mistake]:
    """Return the mistakes that the server's checks found, each with its place if it has one."""
    lines = {field: Lines(read.text) for field, read in texts.items()}
    found = []
    for problem in problems:
        field, keys = _field_of(problem.path)
        read = texts.get(field) if field is not None else None
        part = read.find(keys) if read is not None else None
        place = None
        if field is not None and read is not None and part is not None:
            start = part.key_start if part.key_start >= 0 else part.start
            end = part.end if part.end - start <= 200 or part.key_start < 0 else part.start
            place = spot(field, read.text, start, max(start + 1, end), lines[field])
        found.append(
            Mistake(message=problem.message, spot=place, path=problem.path[:300], rule=problem.rule)
        )
    return found


def in_order(found: Iterable[Mistake]) -> tuple[Mistake, ...]:
    """Return mistakes in the order of their places; those that have none come last."""

    def place(one: Mistake) -> tuple[int, int]:
        return (FIELDS.index(one.spot.field), one.spot.start) if one.spot else (len(FIELDS), 0)

    return tuple(sorted(found, key=place))


def _field_of(path: str) -> tuple[Field | None, tuple[str | int, ...]]:
    keys = keys_of(path)
    first = keys[0] if keys else ""
    if first == "dsl":
        return "dsl", keys[1:]
    return ("conf", keys[1:]) if first == "conf" else (None, ())


# --- what a file holds ----------------------------------------------------------------------------


def split(read: JsonText) -> dict[Field, str]:
    """Return which of the two texts a file is, or both of them out of one file; nothing if it is
    neither. Their texts are as they stand in the file.
    """
    value = read.value
    if not isinstance(value, dict):
        return {}
    pairs: tuple[tuple[Field, tuple[str, ...]], ...] = (
        ("dsl", _DSL_MEMBERS),
        ("conf", _CONF_MEMBERS),
    )
    found: dict[Field, str] = {}
    for field, names in pairs:
        name = next((n for n in names if isinstance(value.get(n), dict)), None)
        part = read.find([name]) if name is not None else None
        if part is not None:
            found[field] = _unindented(read.text, part.start, part.end)
    if found:
        return found
    if "components" in value:
        return {"dsl": read.text}
    if any(name in value for name in ("initiator", "role", "job_parameters", "dsl_version")):
        return {"conf": read.text}
    return {}


def _unindented(text: str, start: int, end: int) -> str:
    """Return a part of a text without the blanks that its own first line begins with."""
    line = text[text.rfind("\n", 0, start) + 1 : start]
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    part = text[start:end]
    return part.replace("\n" + blanks, "\n") + "\n" if blanks else part + "\n"


def without_key(conf: Any) -> tuple[Any, bool]:
    """Return a conf without its idempotency key, which stands for the job that it was sent with,
    and whether it had one.
    """
    changed = copy_json(conf)
    section = changed.get("job_parameters") if isinstance(changed, dict) else None
    had = False
    if isinstance(section, dict):
        for holder in (section, section.get("common")):
            if isinstance(holder, dict) and "idempotency_key" in holder:
                del holder["idempotency_key"]
                had = True
    return changed, had


# --- what each site gets --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class SitePlan:
    """What one site would do, and what it would need."""

    site: Site
    is_initiator: bool
    is_here: bool
    components: tuple[str, ...]
    cores: int
    cores_per_task: int
    parallelism: int
    memory: int  #: MiB, 0: not counted
    tables: tuple[str, ...]  #: `namespace.name` that it reads


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One component: what it runs, where, after which others."""

    name: str
    module: str
    after: tuple[str, ...]
    sites: tuple[Site, ...]


def shares(spec: JobSpec, *, own: Collection[str]) -> list[SitePlan]:
    """Return the parts of all sites; `own` are the parties of this server."""
    found = []
    for site in spec.sites:
        parameters = spec.job_parameters_at(site)
        demand = demand_at(site, parameters)
        names = tuple(n for n in spec.dag.order if spec.runs_at(n, site))
        found.append(
            SitePlan(
                site=site,
                is_initiator=site == spec.initiator,
                is_here=site.party_id in own,
                components=names,
                cores=demand.of_job.cores,
                cores_per_task=demand.task_cores,
                parallelism=demand.task_parallelism,
                memory=demand.of_job.memory,
                tables=tuple(_tables(spec, site, names))[:MAX_TABLES],
            )
        )
    return found


def steps(spec: JobSpec) -> list[Step]:
    """Return the components in the order in which they run."""
    return [
        Step(
            name=name,
            module=spec.modules[name].module,
            after=tuple(spec.dag.upstream(name)),
            sites=spec.sites_of(name),
        )
        for name in spec.dag.order
    ]


def _tables(spec: JobSpec, site: Site, names: Iterable[str]) -> Iterable[str]:
    for name in names:
        if spec.modules[name].module != "Reader":
            continue
        table = spec.component_parameters(name, site).get("table")
        for one in table if isinstance(table, list) else [table]:
            if isinstance(one, dict) and one.get("name"):
                yield f"{one.get('namespace', '')}.{one['name']}"[:200]
