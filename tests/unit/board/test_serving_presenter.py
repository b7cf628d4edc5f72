"""What the page of serving shows of given answers of processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fedflow.app.models.serving_views import ServingOverview
from fedflow.app.ports.serving import ServingProcessState
from fedflow.board.presenters.serving import DRAWING, DRIFT_ROWS, ServingPage, page_of
from fedflow.board.presenters.serving_numbers import ServingNumbers
from fedflow.wire.prometheus_text import samples
from fedflow.wire.serving_states import (
    ComparedVersion,
    DriftColumn,
    DriftVersion,
    ProcessReadiness,
    ServedVersion,
    ServiceRelease,
    ServiceSplit,
    SplitPart,
)

MODEL = "guest-9999#host-10000#model"
TEXT = """
fedflow_serving_requests_total{service="credit",version="v1",kind="single"} 30
fedflow_serving_requests_total{service="credit",version="v2",kind="batch"} 10
fedflow_serving_rows_total{service="credit",version="v1",retcode="0"} 25
fedflow_serving_rows_total{service="credit",version="v1",retcode="2105"} 5
fedflow_serving_rows_total{service="",version="",retcode="122"} 2
fedflow_serving_degraded_rows_total{service="credit",version="v1",how="guest_only"} 3
fedflow_serving_request_seconds_bucket{service="credit",version="v1",le="0.01"} 10
fedflow_serving_request_seconds_bucket{service="credit",version="v1",le="0.02"} 30
fedflow_serving_request_seconds_bucket{service="credit",version="v1",le="+Inf"} 30
fedflow_serving_partner_answers_total{party="10000",retcode="0"} 20
fedflow_serving_partner_answers_total{party="10000",retcode="2105"} 5
fedflow_serving_served_rows_total{party="7777",retcode="0"} 4
fedflow_serving_cache_lookups_total{level="results",outcome="hit"} 3
fedflow_serving_cache_lookups_total{level="results",outcome="miss"} 1
"""


def part(version: str, weight: float = 100.0, **more: Any) -> SplitPart:
    return SplitPart(model_id=MODEL, model_version=version, weight=weight, **more)


def served(version: str = "v1", **more: Any) -> ServedVersion:
    given = {"role": "guest", "party_id": "9999", "status": "loaded", **more}
    return ServedVersion(model_id=MODEL, model_version=version, **given)


def credit(*parts: SplitPart, past: Sequence[ServiceRelease] = ()) -> ServiceSplit:
    now = ServiceRelease(bound_ms=5, versions=list(parts), current=True)
    return ServiceSplit(service_id="credit", versions=list(parts), history=[now, *past])


def process(address: str = "one:1", text: str = TEXT, **more: Any) -> ServingProcessState:
    return ServingProcessState(
        address=address,
        readiness=ProcessReadiness(ready=True, partners={"10000": "answers"}),
        samples=list(samples(text)),
        **{"versions": [served()], "services": [credit(part("v1"))], **more},
    )


def page(*processes: ServingProcessState, **per_minute: float) -> ServingPage:
    return page_of(ServingOverview(processes=processes, per_minute=per_minute))


def test_counts_of_all_processes_are_summed_up() -> None:
    (service,) = page(process("one:1"), process("two:2"), credit=12.5).services
    assert (service.requests, service.per_minute) == (80, 12.5)
    assert [(one.code, one.rows) for one in service.errors] == [("2105", 10)]
    assert service.degraded == 6
    assert service.bound_at == ["one:1", "two:2"]
    (one,) = service.parts
    assert (one.requests, one.share) == (60, 0.75)


def test_times_are_quantiles_of_the_bins() -> None:
    (service,) = page(process()).services
    assert service.times.p50_ms == pytest.approx(12.5)
    assert service.times.p95_ms == pytest.approx(19.25)
    assert ServingNumbers([process(text="")]).times("request_seconds").p50_ms is None


def test_times_above_the_last_bound_are_that_bound() -> None:
    text = 'fedflow_serving_x_bucket{le="3"} 0\nfedflow_serving_x_bucket{le="+Inf"} 5'
    assert ServingNumbers([process(text=text)]).times("x").p50_ms == 3000


def test_requests_per_minute_are_unknown_at_first() -> None:
    (service,) = page(process()).services
    assert service.per_minute is None


def test_a_split_is_shown_with_weights_and_shadows() -> None:
    parts = [part("v1", 90.0), part("v2", 10.0), part("v3", 0.0, shadow=True)]
    (service,) = page(process(services=[credit(*parts)])).services
    assert [(o.model_version, o.weight, o.shadow) for o in service.parts] == [
        ("v1", 90.0, False), ("v2", 10.0, False), ("v3", 0.0, True),
    ]  # fmt: skip


def test_versions_are_compared_over_all_processes() -> None:
    def compared(rows: int, mean: float, psi: float | None) -> dict[str, list[ComparedVersion]]:
        one = ComparedVersion(
            model_id=MODEL, model_version="v2", rows=rows + 1, errors=1, mean_score=mean, psi=psi,
            compared_rows=rows, mean_difference=mean / 10, labels_differ=0.5,
        )  # fmt: skip
        return {"credit": [one]}

    services = [credit(part("v1"), part("v2", 0.0, shadow=True))]
    (service,) = page(
        process("one:1", services=services, comparisons=compared(10, 0.2, 0.05)),
        process("two:2", services=services, comparisons=compared(30, 0.6, 0.3)),
        process("three:3", services=services, comparisons=compared(0, 0.9, None)),
    ).services
    main, shadow = service.parts
    assert (main.mean_score, main.psi) == (None, None)
    assert shadow.mean_score == pytest.approx(0.5)
    assert shadow.mean_difference == pytest.approx(0.05)
    assert (shadow.psi, shadow.labels_differ) == (0.3, 0.5)


def test_processes_that_disagree_are_said_to() -> None:
    other = process("two:2", services=[credit(part("v2"))])
    away = ServingProcessState(address="three:3", trouble="silent")
    unbound = process("four:4", services=[])
    for processes, agrees in (
        ([process()], True),
        ([process(), process("two:2")], True),
        ([process(), away], True),
        ([process(), other], False),
        ([process(), unbound], False),
    ):
        (service,) = page(*processes).services
        assert service.agrees is agrees


def test_only_what_answered_before_can_be_rolled_back_to() -> None:
    (service,) = page(process()).services
    assert not service.can_roll_back
    past = [ServiceRelease(bound_ms=3, versions=[part("v0")])]
    (service,) = page(process(services=[credit(part("v1"), past=past)])).services
    assert service.can_roll_back
    assert service.past[0].versions[0].model_version == "v0"


def test_a_version_that_one_process_refused_says_why() -> None:
    refused = process("two:2", versions=[served(status="refused", reason="it is damaged")])
    (version,) = page(process(), refused).versions
    assert version.loaded_at == ["one:1"]
    assert version.refused == [("two:2", "it is damaged")]
    assert version.services == ["credit"]
    assert version.answers_callers
    (only,) = page(refused).versions
    assert not only.answers_callers


def test_a_share_of_a_host_is_no_version_of_a_service() -> None:
    host = process(versions=[served(role="host", party_id="10000")])
    (version,) = page(host).versions
    assert (version.services, version.answers_callers) == ([], False)


def test_partners_are_hosts_that_are_asked_and_guests_that_ask() -> None:
    failing = ServingProcessState(
        address="two:2",
        readiness=ProcessReadiness(
            ready=True, partners={"10000": "it is away"}, circuits={"10000": "open"}
        ),
    )
    host, guest = page(process(), failing).partners
    assert (host.party_id, host.is_host, host.answers) == ("10000", True, 25)
    assert host.states == [("one:1", "answers"), ("two:2", "it is away")]
    assert not host.answers_all
    assert host.left_out_at == ["two:2"]
    assert (guest.party_id, guest.is_host, guest.answers) == ("7777", False, 4)


def test_caches_have_a_share_of_hits() -> None:
    (cache,) = page(process()).caches
    assert (cache.level, cache.lookups, cache.hits, cache.share) == ("results", 4, 3, 0.75)
    assert page(process(text="")).caches == []


def test_requests_of_no_service_are_apart() -> None:
    assert [(o.code, o.rows) for o in page(process()).refused_requests] == [("122", 2)]


def drifting(*columns: DriftColumn) -> ServingProcessState:
    version = DriftVersion(
        role="guest", party_id="9999", model_id=MODEL, model_version="v1", columns=list(columns)
    )
    return process(drift=[version])


@pytest.mark.parametrize(
    ("psi", "word"),
    [(None, "unknown"), (0.09, "stable"), (0.1, "shifting"), (0.24, "shifting"), (0.25, "shifted")],
)
def test_a_psi_has_a_word(psi: float | None, word: str) -> None:
    (row,) = page(drifting(DriftColumn(kind="score", column="score", rows=9, psi=psi))).drift
    assert row.word == word


def test_the_largest_drift_comes_first_and_not_all_is_listed() -> None:
    columns = [
        DriftColumn(kind="feature", column=f"x{n}", rows=1, psi=n / 1000)
        for n in range(DRIFT_ROWS + 7)
    ]
    shown = page(drifting(*columns, DriftColumn(kind="feature", column="none", rows=0)))
    assert shown.drift[0].column.column == f"x{DRIFT_ROWS + 6}"
    assert (len(shown.drift), shown.more_drift) == (DRIFT_ROWS, 7)


def test_bins_are_drawn_within_their_drawing() -> None:
    column = DriftColumn(
        kind="score", column="score", rows=9, expected=[0.5, 0.5, 0.0], actual=[0.0, 1.0, 0.0]
    )
    (row,) = page(drifting(column)).drift
    width, height = DRAWING
    assert [(bar.expected, bar.actual) for bar in row.bars] == [
        (height / 2, 0), (height / 2, height), (0, 0),
    ]  # fmt: skip
    assert row.bars[-1].x + row.bars[-1].width <= width


def test_a_process_that_says_nothing_has_a_row() -> None:
    (row,) = page(ServingProcessState(address="one:1", trouble="refused")).processes
    assert (row.trouble, row.ready, row.loaded) == ("refused", False, 0)
