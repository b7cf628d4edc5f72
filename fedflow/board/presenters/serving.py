"""What the page of serving shows of all serving processes of this party together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fedflow.app.models.serving_views import ServingOverview
from fedflow.app.ports.serving import ServingProcessState
from fedflow.base.values import dataclass
from fedflow.board.presenters.serving_numbers import (
    SUCCESS,
    CacheRow,
    CodeCount,
    ServingNumbers,
    Times,
)
from fedflow.wire.serving_states import DriftColumn, DriftVersion, ServiceRelease, ServiceSplit

SHIFTING, SHIFTED = 0.1, 0.25  #: of a PSI, as in docs/serving.md
DRIFT_ROWS: Final = 100  #: that are listed, the largest PSI first
DRAWING: Final = (110, 26)  #: width and height of the drawing of a column's bins
_GUESTS: Final = ("guest", "local")

Version = tuple[str, str]  #: model id and version


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRow:
    """One serving process."""

    address: str
    trouble: str  #: why it says nothing: silent, refused or unreadable
    ready: bool
    reasons: Sequence[str]
    loaded: int
    refused: int
    services: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PartRow:
    """A version of a service."""

    model_id: str
    model_version: str
    weight: float  #: percent of the users
    shadow: bool
    requests: int
    share: float | None  #: of the service's requests so far
    times: Times
    mean_score: float | None = None
    psi: float | None = None  #: of its scores against the main version's, the largest one
    mean_difference: float | None = None  #: of a shadow, from the scores that were answered
    labels_differ: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceRow:
    """One service, summed up over all processes."""

    service_id: str
    parts: Sequence[PartRow]
    rules: int
    bound_at: Sequence[str]  #: addresses of processes that answer it
    agrees: bool  #: all processes that were read answer with the same versions
    requests: int
    per_minute: float | None
    times: Times
    errors: Sequence[CodeCount]
    degraded: int  #: rows with a score that came about without a host
    past: Sequence[ServiceRelease]  #: what answered before, the newest first

    @property
    def can_roll_back(self) -> bool:
        """Tell whether some other release answered before."""
        return bool(self.past)


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionRow:
    """One share, and where it is loaded."""

    model_id: str
    model_version: str
    role: str
    party_id: str
    loaded_at: Sequence[str]
    refused: Sequence[tuple[str, str]]  #: addresses, and why not
    services: Sequence[str]
    inputs: Sequence[str]
    texts: Sequence[str]
    hosts: Sequence[str]
    answers_callers: bool  #: a service can be bound to it


@dataclass(frozen=True, kw_only=True, slots=True)
class PartnerRow:
    """Another party: asked for its part (a host), or asking for ours (a guest)."""

    party_id: str
    is_host: bool
    states: Sequence[tuple[str, str]]  #: addresses, and what came of the last call
    left_out_at: Sequence[str]  #: addresses that do not call it for now, as it did not answer
    answers: int  #: calls to a host, rows of a guest
    errors: Sequence[CodeCount]
    times: Times | None

    @property
    def answers_all(self) -> bool:
        """Tell whether the last call of each process was answered, or none was made."""
        return all(state in ("answers", "not asked yet") for _, state in self.states)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """Two bars of one bin, from the bottom: of the reference, and of the newest rows."""

    x: float
    width: float
    expected: float  #: height
    actual: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftRow:
    """One column of one version at one process."""

    address: str
    model_version: str
    site: str
    column: DriftColumn

    @property
    def word(self) -> str:
        """Return stable, shifting, shifted or unknown."""
        psi = self.column.psi
        if psi is None:
            return "unknown"
        return "stable" if psi < SHIFTING else "shifting" if psi < SHIFTED else "shifted"

    @property
    def bars(self) -> list[Bar]:
        """Return the bars of the bins, for a drawing of `DRAWING` units."""
        pairs = list(zip(self.column.expected, self.column.actual, strict=False))
        most = max((max(pair) for pair in pairs), default=0.0) or 1.0
        width, height = DRAWING
        step = width / max(1, len(pairs))
        return [
            Bar(
                x=round(place * step, 2),
                width=round(step * 0.8, 2),
                expected=round(height * e / most, 2),
                actual=round(height * a / most, 2),
            )
            for place, (e, a) in enumerate(pairs)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingPage:
    """All of it."""

    processes: Sequence[ProcessRow]
    services: Sequence[ServiceRow]
    versions: Sequence[VersionRow]
    partners: Sequence[PartnerRow]
    caches: Sequence[CacheRow]
    refused_requests: Sequence[CodeCount]  #: of no service
    drift: Sequence[DriftRow]
    more_drift: int  #: rows that are not listed

    def service(self, service_id: str) -> ServiceRow | None:
        """Return a service, None if there is none."""
        return next((one for one in self.services if one.service_id == service_id), None)

    def guest_version(self, version: Version) -> VersionRow | None:
        """Return the share of a version that answers callers, the guest's before a host's."""
        found = (one for one in self.versions if one.answers_callers)
        return next((o for o in found if (o.model_id, o.model_version) == version), None)


def page_of(overview: ServingOverview) -> ServingPage:
    """Return what the page shows."""
    processes = overview.processes
    numbers = ServingNumbers(processes)
    drift = sorted(_drift(processes), key=_by_drift)
    return ServingPage(
        processes=[_process(one) for one in processes],
        services=_services(overview, numbers),
        versions=_versions(processes),
        partners=[*_hosts(processes, numbers), *_guests(numbers)],
        caches=numbers.caches(),
        refused_requests=_errors(numbers.codes("rows_total", service="", version="")),
        drift=drift[:DRIFT_ROWS],
        more_drift=max(0, len(drift) - DRIFT_ROWS),
    )


def _process(one: ServingProcessState) -> ProcessRow:
    readiness = one.readiness
    return ProcessRow(
        address=one.address,
        trouble=one.trouble,
        ready=readiness is not None and readiness.ready,
        reasons=readiness.reasons if readiness is not None else (),
        loaded=sum(version.status == "loaded" for version in one.versions),
        refused=sum(version.status == "refused" for version in one.versions),
        services=len(one.services),
    )


# --- services -------------------------------------------------------------------------------------


def _services(overview: ServingOverview, numbers: ServingNumbers) -> list[ServiceRow]:
    found: dict[str, dict[str, ServiceSplit]] = {}
    for process in overview.processes:
        for service in process.services:
            found.setdefault(service.service_id, {})[process.address] = service
    read = sum(not one.trouble for one in overview.processes)
    return [
        _service(name, by_address, read, overview, numbers)
        for name, by_address in sorted(found.items())
    ]


def _service(
    name: str, by_address: dict[str, ServiceSplit], read: int, overview: ServingOverview,
    numbers: ServingNumbers,
) -> ServiceRow:  # fmt: skip
    first = next(iter(by_address.values()))
    requests = numbers.by("requests_total", "version", service=name)
    total = sum(requests.values())
    same = all(_split(one) == _split(first) for one in by_address.values())
    return ServiceRow(
        service_id=name,
        parts=[
            PartRow(
                model_id=one.model_id,
                model_version=one.model_version,
                weight=one.weight,
                shadow=one.shadow,
                requests=round(requests.get(one.model_version, 0.0)),
                share=requests.get(one.model_version, 0.0) / total if total else None,
                times=numbers.times("request_seconds", service=name, version=one.model_version),
                **_compared(overview.processes, name, (one.model_id, one.model_version)),
            )
            for one in first.versions
        ],
        rules=len(first.rules),
        bound_at=list(by_address),
        agrees=same and len(by_address) == read,
        requests=round(total),
        per_minute=overview.per_minute.get(name, 0.0) if overview.per_minute else None,
        times=numbers.times("request_seconds", service=name),
        errors=_errors(numbers.codes("rows_total", service=name)),
        degraded=round(numbers.by("degraded_rows_total", "service").get(name, 0.0)),
        past=_past(first),
    )


def _compared(
    processes: Sequence[ServingProcessState], service: str, version: Version
) -> dict[str, float | None]:
    """Return how a version compares at all processes: means over their rows, the largest PSI."""
    found = [
        one
        for process in processes
        for one in process.comparisons.get(service, ())
        if (one.model_id, one.model_version) == version
    ]
    return {
        "mean_score": _mean([(one.mean_score, one.rows - one.errors) for one in found]),
        "psi": max((one.psi for one in found if one.psi is not None), default=None),
        "mean_difference": _mean([(one.mean_difference, one.compared_rows) for one in found]),
        "labels_differ": _mean([(one.labels_differ, one.compared_rows) for one in found]),
    }


def _mean(values: Sequence[tuple[float | None, int]]) -> float | None:
    """Return the mean of means over so many rows each, None if there is none."""
    known = [(value, rows) for value, rows in values if value is not None and rows > 0]
    rows = sum(rows for _, rows in known)
    return sum(value * rows for value, rows in known) / rows if rows else None


def _split(service: ServiceSplit) -> list[tuple[str, str, float, bool]]:
    return sorted(
        (o.model_id, o.model_version, round(o.weight, 6), o.shadow) for o in service.versions
    )


def _past(service: ServiceSplit) -> list[ServiceRelease]:
    """Return the releases before the current one, the newest first."""
    history = service.history
    current = next((place for place, one in enumerate(history) if one.current), 0)
    return history[current + 1 :]


def _errors(codes: Iterable[CodeCount]) -> list[CodeCount]:
    return [one for one in codes if one.code != SUCCESS]


# --- versions, partners ---------------------------------------------------------------------------


def _versions(processes: Sequence[ServingProcessState]) -> list[VersionRow]:
    found: dict[tuple[str, str, str, str], list[tuple[ServingProcessState, int]]] = {}
    for process in processes:
        for place, one in enumerate(process.versions):
            key = (one.model_id, one.model_version, one.role, one.party_id)
            found.setdefault(key, []).append((process, place))
    return [_version(where) for _, where in sorted(found.items())]


def _version(where: Sequence[tuple[ServingProcessState, int]]) -> VersionRow:
    every = [(process.address, process.versions[place]) for process, place in where]
    loaded = [(address, one) for address, one in every if one.status == "loaded"]
    first = (loaded or every)[0][1]
    key = (first.model_id, first.model_version)
    answers = first.role in _GUESTS if first.answers_callers is None else first.answers_callers
    services = {
        service.service_id
        for process, _ in where
        for service in process.services
        if answers and any((part.model_id, part.model_version) == key for part in service.versions)
    }
    return VersionRow(
        model_id=first.model_id,
        model_version=first.model_version,
        role=first.role,
        party_id=first.party_id,
        loaded_at=[address for address, _ in loaded],
        refused=[(address, one.reason) for address, one in every if one.status != "loaded"],
        services=sorted(services),
        inputs=first.inputs,
        texts=first.texts,
        hosts=first.hosts,
        answers_callers=answers and bool(loaded),
    )


def _hosts(processes: Sequence[ServingProcessState], numbers: ServingNumbers) -> list[PartnerRow]:
    states: dict[str, list[tuple[str, str]]] = {}
    for process in processes:
        partners = process.readiness.partners if process.readiness is not None else {}
        for party, state in partners.items():
            states.setdefault(party, []).append((process.address, state))
    asked = numbers.by("partner_answers_total", "party")
    return [
        PartnerRow(
            party_id=party,
            is_host=True,
            states=states.get(party, []),
            left_out_at=[
                one.address
                for one in processes
                if one.readiness is not None and party in one.readiness.circuits
            ],
            answers=round(asked.get(party, 0.0)),
            errors=_errors(numbers.codes("partner_answers_total", party=party)),
            times=numbers.times("partner_seconds", party=party),
        )
        for party in sorted({*states, *asked})
    ]


def _guests(numbers: ServingNumbers) -> list[PartnerRow]:
    return [
        PartnerRow(
            party_id=party,
            is_host=False,
            states=[],
            left_out_at=[],
            answers=round(rows),
            errors=_errors(numbers.codes("served_rows_total", party=party)),
            times=None,
        )
        for party, rows in sorted(numbers.by("served_rows_total", "party").items())
    ]


# --- drift ----------------------------------------------------------------------------------------


def _drift(processes: Sequence[ServingProcessState]) -> list[DriftRow]:
    return [
        _drift_row(process, version, column)
        for process in processes
        for version in process.drift
        for column in version.columns
        if column.rows
    ]


def _drift_row(
    process: ServingProcessState, version: DriftVersion, column: DriftColumn
) -> DriftRow:
    return DriftRow(
        address=process.address,
        model_version=version.model_version,
        site=f"{version.role} {version.party_id}",
        column=column,
    )


def _by_drift(row: DriftRow) -> tuple[float, str, bool, str]:
    """Sort by PSI, the largest first; of equal ones by version, scores first."""
    psi = -1.0 if row.column.psi is None else row.column.psi
    return -psi, row.model_version, row.column.kind != "score", row.column.column
