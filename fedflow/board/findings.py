"""What is found when a draft of a job is looked at: mistakes, notes, and what each site gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fedflow.app.initiator.site_checks import SiteCheck
from fedflow.app.initiator.validation import ValidationReport
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import NoRoute, PartiesNotReady
from fedflow.base.messages import verbatim
from fedflow.base.values import dataclass
from fedflow.board import drafts
from fedflow.board.drafts import MAX_TEXT, Draft
from fedflow.board.json_faults import sentence
from fedflow.board.language import t
from fedflow.board.presenters import dag
from fedflow.board.presenters.document_diff import DocumentComparison, compare
from fedflow.board.presenters.json_text import JsonText, Lines
from fedflow.board.presenters.submit import (
    FIELDS,
    Field,
    Mistake,
    SitePlan,
    Step,
    in_order,
    mistakes,
    shares,
    spot,
    steps,
)
from fedflow.board.statuses import KINDS, SHAPES
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.records import JobFilter
from fedflow.web.context import services

SHOWN: Final = 100  #: mistakes, notes and changes that are listed
DRAWN: Final = 1_000  #: components up to which the graph is drawn


@dataclass(frozen=True, kw_only=True, slots=True)
class TriedRoute:
    """What came of asking a party: why it cannot take part, empty if it can."""

    party_id: str
    reason: str
    was_asked: bool = True  #: whether it would accept the job


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What the page shows beside the two texts."""

    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[JobWarning, ...] = ()
    steps: tuple[Step, ...] = ()
    shares: tuple[SitePlan, ...] = ()
    graph: str = ""  #: JSON of the drawing, empty: there is none
    states: str = ""  #: JSON of what stands in its boxes
    version: int = 2
    changes: DocumentComparison | None = None  #: None: this is no copy, or not comparable
    asked: tuple[TriedRoute, ...] | None = None  #: None: the parties were not asked
    refusal: FedflowError | None = None  #: why a submit was refused, if that is no mistake
    earlier_job: str = ""  #: id of the job that the form was sent as before
    is_empty: bool = False  #: there is nothing to look at yet

    @property
    def is_good(self) -> bool:
        return not self.mistakes and not self.is_empty and self.refusal is None

    @property
    def remote(self) -> bool:
        """Tell whether parties of other servers take part."""
        return any(not share.is_here for share in self.shares)


def look(draft: Draft, *, ask: bool = False) -> Findings:
    """Return what can be known of a draft without storing it; `ask` calls its parties."""
    if draft.is_empty:
        return Findings(is_empty=True)
    too_long = tuple(
        Mistake(
            message=t(
                "The text has more than {n} characters: use `fedflow job submit` for such jobs.",
                n=MAX_TEXT,
            ),
            spot=spot(name, draft.text(name), 0, 1),
        )
        for name in draft.long
    )
    if too_long:
        return Findings(mistakes=too_long)
    read = draft.read()
    unread = tuple(_unread(read))
    if any(not one.is_json for one in read.values()):
        return Findings(mistakes=unread)
    dsl, conf = read["dsl"].value, read["conf"].value
    examined = services().submissions.validation.validate(dsl, conf)
    found = Findings(
        mistakes=in_order((*unread, *mistakes(examined.problems, read))),
        warnings=examined.warnings,
        version=examined.version,
        changes=_changed(draft, dsl, conf),
    )
    if examined.spec is None:
        return found
    found = replace(found, **_drawn(examined.spec, examined.here))
    if ask and found.is_good:
        found = replace(found, asked=_asked(examined))
    return found


def refused(draft: Draft, exc: FedflowError) -> Findings:
    """Return what is found in a draft that the server refused for a reason."""
    found = look(draft)
    if isinstance(exc, InvalidJobSpec):
        if not found.mistakes:
            found = replace(found, mistakes=tuple(mistakes(exc.problems, draft.read())))
        return found
    asked = None
    if isinstance(exc, PartiesNotReady):
        asked = tuple(_hops(exc))
    earlier = str(exc.fields.get("earlier_job") or exc.fields.get("job_id") or "")
    return replace(found, refusal=exc, asked=asked, earlier_job=earlier)


def _unread(read: Mapping[Field, JsonText]) -> list[Mistake]:
    """Return what keeps the texts from being JSON objects."""
    found: list[Mistake] = []
    for name in FIELDS:
        one = read[name]
        lines = Lines(one.text)
        found += (
            Mistake(
                message=sentence(fault),
                spot=spot(name, one.text, fault.start, fault.end, lines),
                rule="JSON",
            )
            for fault in one.faults
        )
    return found


def _drawn(spec: JobSpec, own: frozenset[str]) -> dict[str, Any]:
    here = {n for n in spec.dag.names if any(s.party_id in own for s in spec.sites_of(n))}
    graph, states = "", ""
    if len(spec.components) <= DRAWN:
        drawing = dag.graph(spec.dsl, spec.conf, order=spec.dag.order, here=here)
        graph = _compact({**drawing, "kinds": KINDS, "shapes": SHAPES})
        states = _compact({"sites": [], "of": {n: _unsent(spec, n) for n in spec.dag.order}})
    return {
        "steps": tuple(steps(spec)),
        "shares": tuple(shares(spec, own=own)),
        "graph": graph,
        "states": states,
    }


def _unsent(spec: JobSpec, name: str) -> dict[str, Any]:
    """Return how a component stands that is not submitted yet: only where it would run."""
    roles = dict.fromkeys(site.role.value for site in spec.sites_of(name))
    return {"s": "", "p": None, "v": 0, "parts": [], "word": ", ".join(roles)}


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _changed(draft: Draft, dsl: object, conf: object) -> DocumentComparison | None:
    """Return what a copy has in another way than its original."""
    if not draft.source:
        return None
    own = drafts.initiated(services().jobs.find(JobFilter(job_id=draft.source)))
    if own is None:
        return None
    old_dsl, old_conf, _ = drafts.original(own)
    if not draft.dsl.strip():
        return compare({"conf": old_conf}, {"conf": conf})
    return compare({"dsl": old_dsl, "conf": old_conf}, {"dsl": dsl, "conf": conf})


def _asked(examined: ValidationReport) -> tuple[TriedRoute, ...]:
    """Return how the parties of a job answered: every objection and broken hop, and each that is
    well.
    """
    spec = examined.spec
    if spec is None:
        return ()
    others = dict.fromkeys(s.party_id for s in spec.sites if s.party_id not in examined.here)
    told: list[SiteCheck] = []
    try:
        told = services().submissions.validation.ask(spec, model_digest=examined.model_digest)
        broken = [
            TriedRoute(party_id=one.site.party_id, reason=one.objection)
            for one in told
            if one.objection
        ]
    except PartiesNotReady as exc:
        broken = _hops(exc)
    except NoRoute as exc:
        broken = [TriedRoute(party_id=str(exc.fields.get("party_id", "")), reason=exc.message)]
    bad = {hop.party_id for hop in broken}
    unasked = {one.site.party_id for one in told if not one.was_asked}
    well = [TriedRoute(party_id=p, reason="", was_asked=p not in unasked) for p in others]
    return (*broken, *(one for one in well if one.party_id not in bad))


def _hops(exc: PartiesNotReady) -> list[TriedRoute]:
    own = services().info.place.party_id or ""
    found = []
    for hop in exc.fields.get("hops", ()):
        ends = [str(hop.get("from", "")), str(hop.get("to", ""))]
        party = next((end for end in reversed(ends) if end != own), ends[-1])
        found.append(TriedRoute(party_id=party, reason=verbatim(hop.get("reason", ""), 1000)))
    return found
