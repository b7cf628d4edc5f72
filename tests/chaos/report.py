"""What a run is summed up in: tables for people, the same as JSON for programs."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.chaos.run import Done, Outcome


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Return everything that counts as plain JSON. Times are seconds."""
    options = outcome.options
    return {
        "seed": options.seed,
        "parties": options.parties,
        "store": "mysql" if options.mysql else "sqlite",
        "network": "netns" if options.namespaces else "proxy",
        "clock_offset_s": options.offset_s,
        "seconds": round(outcome.seconds),
        "faults": len(outcome.faults),
        "faults_skipped": outcome.skipped,
        "jobs": dict(_jobs(outcome)),
        "reasons_of_refusals": dict(Counter(job.refused for job in outcome.jobs if job.refused)),
        "reruns_and_stops": dict(Counter(deed.split(" at ")[0] for deed in _deeds(outcome))),
        "recovery": [_recovery(kind, done) for kind, done in _by_kind(outcome.faults).items()],
        "each": [_each(done) for done in outcome.faults],
        "anomalies": [
            {"what": one.what, "where": one.where, "detail": one.detail}
            for one in outcome.anomalies
        ],
    }


def to_text(outcome: Outcome) -> str:
    """Return the same as Markdown."""
    found = to_json(outcome)
    jobs = ", ".join(f"{count} {status}" for status, count in found["jobs"].items())
    lines = [
        f"{found['parties']} parties, {found['store']}, {found['network']}, seed {found['seed']}:"
        f" {found['faults']} faults in {found['seconds'] / 60:.1f} minutes",
        f"jobs: {jobs}",
        "",
        "| fault | times | servers ready: median, worst | recovered: median, worst"
        " | jobs under way ended: median, worst |",
        "|---|---|---|---|---|",
    ]
    for row in found["recovery"]:
        times = [_pair(row[name]) for name in ("ready_s", "recovered_s", "settled_s")]
        lines.append(f"| {row['fault']} | {row['times']} | {' | '.join(times)} |")
    if outcome.database_crashes:
        lines += ["", f"databases that crashed by themselves: {outcome.database_crashes}"]
    lines += ["", f"anomalies: {len(outcome.anomalies)}"]
    lines += [f"- {one}" for one in outcome.anomalies]
    return "\n".join(lines)


def _jobs(outcome: Outcome) -> Counter[str]:
    return Counter("refused" if job.refused else job.status for job in outcome.jobs)


def _deeds(outcome: Outcome) -> list[str]:
    return [deed for job in outcome.jobs for deed in job.deeds]


def _each(done: Done) -> dict[str, Any]:
    fault = done.fault
    times = {"ready_s": done.ready_s, "recovered_s": done.recovered_s, "settled_s": done.settled_s}
    return {
        "fault": fault.kind,
        "party": fault.party,
        "lasted_s": round(done.ended_s - done.began_s, 2),
        **{k: None if v is None else round(v - done.ended_s, 2) for k, v in times.items()},
    }


def _by_kind(faults: Sequence[Done]) -> dict[str, list[Done]]:
    kinds: dict[str, list[Done]] = {}
    for done in sorted(faults, key=lambda done: done.fault.kind):
        kinds.setdefault(done.fault.kind, []).append(done)
    return kinds


def _recovery(kind: str, faults: Sequence[Done]) -> dict[str, Any]:
    recovered = [d.recovered_s - d.ended_s for d in faults if d.recovered_s is not None]
    settled = [d.settled_s - d.ended_s for d in faults if d.settled_s is not None]
    return {
        "fault": kind,
        "times": len(faults),
        "not_settled_in_time": len(faults) - len(settled),
        "ready_s": _summary([d.ready_s - d.ended_s for d in faults if d.ready_s is not None]),
        "recovered_s": _summary(recovered),
        "settled_s": _summary(settled),
    }


def _summary(seconds: Sequence[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    return {"median": round(statistics.median(seconds), 2), "worst": round(max(seconds), 2)}


def _pair(summary: dict[str, float] | None) -> str:
    return f"{summary['median']:.1f} s, {summary['worst']:.1f} s" if summary else "-"
