"""The head of a job's page: who takes part, what it waits for or why it ended, what may be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedflow.app.queries.site_jobs import SiteJob
from fedflow.base.clock import is_older
from fedflow.base.values import dataclass
from fedflow.board.presenters.job_list import shown_status
from fedflow.board.presenters.results import Tile, tiles
from fedflow.domain.job.conf import ALL, mode_of
from fedflow.domain.job.spec import model_id_of
from fedflow.domain.records import SUBMIT_FAILED, JobRecord
from fedflow.domain.scheduling.explain import INITIATOR, SILENT_MS
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, JobStatus
from fedflow.wire.api.job_history import End, Wait

WAITS: Final = 20  #: that are shown; the components' own stand in their table


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One site of a job."""

    site: Site
    is_seen: bool  #: the one whose page this is
    is_here: bool  #: it has a page on this server
    is_initiator: bool
    tables: tuple[tuple[str, str], ...]  #: reader and `namespace.name`, as far as this site knows


@dataclass(frozen=True, kw_only=True, slots=True)
class May:
    """What the state of a job allows; who may do it is another question."""

    stop: bool
    pause: bool
    proceed: bool
    rerun: bool
    delete: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """What the head of a job's page shows beside the job itself."""

    shown_status: str  #: `pause` if it is held
    progress: int
    duration_ms: int | None  #: from the start to the end, or to now
    deadline_ms: int | None
    is_final: bool
    is_refused: bool  #: some site did not accept it
    members: tuple[Member, ...]
    waits: tuple[Wait, ...]
    waits_left: int  #: that are not shown
    stopping: str
    end: End | None  #: why it ended, if it did not succeed
    ended_well: str  #: a sentence about its success
    tiles: tuple[Tile, ...]  #: its results
    error_site: Site | None  #: where the first error was
    may: May
    model_id: str
    model_version: str
    is_predict: bool
    reused: tuple[tuple[str, str], ...]  #: component and the job that made its results
    cores: int | None  #: that it holds here, None: none
    memory: int  #: MiB that it holds here

    @property
    def is_settled(self) -> bool:
        """Return whether nothing will change: it ended, cores are back, all reports were sent."""
        return self.is_final and self.cores is None and not self.waits


def head(seen: SiteJob, now_ms: int) -> Head:
    """Return what the head of a job's page shows."""
    job, explained = seen.job, seen.explained
    final = job.status in JOB_FINAL
    waits = [w for w in explained.waits if not w.component and _is_told(job, w, now_ms)]
    end = explained.end
    good = end is not None and job.status is JobStatus.SUCCESS
    started = job.started_ms
    model_id, model_version, is_predict = model_of(job)
    return Head(
        shown_status=shown_status(
            job.status, on_hold=seen.on_hold, refused=job.tag == SUBMIT_FAILED
        ),
        progress=100 if job.status is JobStatus.SUCCESS else job.progress,
        duration_ms=None if started is None else max(0, (job.ended_ms or now_ms) - started),
        deadline_ms=explained.deadline_ms if not final else None,
        is_final=final,
        is_refused=job.tag == SUBMIT_FAILED,
        members=members(seen),
        waits=tuple(waits[:WAITS]),
        waits_left=max(0, len(waits) - WAITS),
        stopping=seen.stop.reason.message if seen.stop is not None and not final else "",
        end=end if not good else None,
        ended_well=end.message if good and end is not None else "",
        tiles=tiles(job.figures),
        error_site=_site(end.site) if end is not None and end.site else None,
        may=_may(seen, final=final),
        model_id=model_id,
        model_version=model_version,
        is_predict=is_predict,
        reused=_reused(seen),
        cores=job.cores if job.in_use else None,
        memory=job.memory if job.in_use else 0,
    )


def _is_told(job: JobRecord, wait: Wait, now_ms: int) -> bool:
    """Tell whether a wait is worth a word: that the initiator decides is none while all runs."""
    if wait.code != INITIATOR or job.status is not JobStatus.RUNNING:
        return True
    return wait.heard_ms is not None and is_older(wait.heard_ms, SILENT_MS, now_ms)


def members(seen: SiteJob) -> tuple[Member, ...]:
    """Return all sites of a job in the order of roles; tables of others only at the initiator."""
    job = seen.job
    found = []
    for role in Role:
        for index, party in enumerate(job.roles.get(role.value, ())):
            site = _site(f"{role.value}-{party}")
            if site is None:
                continue
            told = seen.is_initiator or site == seen.site
            read = tables_read(job.conf, role.value, index) if told else {}
            found.append(
                Member(
                    site=site,
                    is_seen=site == seen.site,
                    is_here=site in seen.own_sites,
                    is_initiator=site == job.initiator,
                    tables=tuple(read.items()),
                )
            )
    return tuple(found)


def tables_read(conf: Any, role: str, index: int) -> dict[str, str]:
    """Return reader -> `namespace.name` of the tables that a conf gives to one party."""
    read: dict[str, str] = {}
    sections = _member(conf, "component_parameters")
    layers = [_member(sections, "common")]
    overlays = _member(_member(sections, "role"), role)
    keys = [key for key in overlays if key == ALL or str(index) in key.split("|")]
    layers += [_member(overlays, key) for key in keys]
    for layer in layers:
        for component in layer:
            source = _member(_member(layer, component), "table")
            if "name" in source:
                read[component] = f"{source.get('namespace')}.{source['name']}"
            elif "job_id" in source:
                names = (source["job_id"], source.get("component_name"), source.get("data_name"))
                read[component] = "/".join(str(n) for n in names)
    return read


def _member(value: Any, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _site(key: str) -> Site | None:
    try:
        return Site.from_key(key)
    except ValueError:
        return None


def _may(seen: SiteJob, *, final: bool) -> May:
    refused = seen.job.tag == SUBMIT_FAILED or not seen.is_accepted
    return May(
        stop=not final,
        pause=not final and not seen.is_paused and seen.stop is None and not refused,
        proceed=not final and seen.is_stopped,
        rerun=final and not refused,
        delete=final,
    )


def model_of(job: JobRecord) -> tuple[str, str, bool]:
    """Return id and version of the model that a job trains, or uses, and whether it uses it."""
    if job.key.site.role is Role.LOCAL:
        return "", "", False
    if mode_of(job.conf) != "predict":
        try:
            return model_id_of(job.roles), job.key.job_id, False
        except ValueError:
            return "", "", False
    common = _member(_member(job.conf, "job_parameters"), "common")
    return str(common.get("model_id", "")), str(common.get("model_version", "")), True


def _reused(seen: SiteJob) -> tuple[tuple[str, str], ...]:
    found = {t.key.component: t.inherited_from for t in seen.tasks if t.inherited_from}
    return tuple(found.items())
