"""Where the time of a job went: shares, what was waited for, the critical path, short ones."""

from __future__ import annotations

from fedflow.board.presenters import timeline
from fedflow.board.presenters.attempts import Attempt, Epoch
from fedflow.board.presenters.timeline_sums import TimeSums, ordered, short_ones, time_sums
from fedflow.domain.site import Site
from tests.board.seeds import GUEST, HOST

T0 = 1_000_000
RUN = Epoch(number=0, start_ms=T0, end_ms=T0 + 10_000, phases=())
UPSTREAM = {"b": ("a",), "c": ("a",), "d": ("b", "c")}


def ran(name: str, begin: int, end: int, site: Site = GUEST, status: str = "success") -> Attempt:
    return Attempt(
        component=name, version=0, site=site, status=status, began_ms=T0 + begin, ended_ms=T0 + end
    )


def sums_of(*found: Attempt) -> TimeSums:
    return time_sums(found, [RUN], upstream=UPSTREAM, now_ms=T0 + 10_000)


def test_the_parts_of_the_time_add_up_to_the_whole() -> None:
    sums = sums_of(
        ran("a", 500, 1_000), ran("b", 1_000, 8_000), ran("b", 1_500, 9_000, HOST),
        ran("c", 9_000, 9_200),
    )  # fmt: skip
    assert (sums.whole_ms, sums.leading) == (10_000, ("b",))
    assert sums.by_component == {"a": 500, "b": 8_000, "c": 200}
    assert (sums.rest_ms, sums.waiting_ms) == (700, 1_300)
    assert sums.by_component["b"] + sums.rest_ms + sums.waiting_ms == sums.whole_ms


def test_what_was_taken_over_took_no_time_and_what_runs_counts_until_now() -> None:
    taken = Attempt(component="a", version=0, site=GUEST, ended_ms=T0, inherited_from="j0")
    running = Attempt(
        component="b", version=0, site=GUEST, status="running", asked_ms=T0 + 6_000
    )  # fmt: skip
    assert sums_of(taken, running).by_component == {"b": 4_000}


def test_the_critical_path_leads_from_the_last_end_over_what_it_waited_for() -> None:
    sums = sums_of(ran("a", 0, 1_000), ran("b", 1_000, 2_000), ran("c", 1_000, 5_000),
                   ran("d", 5_000, 6_000))  # fmt: skip
    assert sums.critical == {"a", "c", "d"}
    assert sums_of().critical == frozenset()


def test_components_are_ordered_by_start_duration_and_name() -> None:
    found = [ran("b", 0, 1_000), ran("a", 2_000, 5_000)]
    order, sums = ("z", "b", "a"), sums_of(*found)
    assert ordered(order, "start", found, sums) == ["b", "a", "z"]
    assert ordered(order, "duration", found, sums) == ["a", "b", "z"]
    assert ordered(order, "name", found, sums) == ["a", "b", "z"]


def test_short_ones_of_many_are_folded_away_unless_something_is_wrong_with_them() -> None:
    names = tuple(f"step_{i}" for i in range(12))
    found = [ran(name, 0, 50) for name in names[:-2]]
    found += [ran(names[-2], 0, 50, status="failed"), ran(names[-1], 0, 9_000)]
    assert short_ones(names, found, sums_of(*found)) == set(names[:-2])
    assert short_ones(names[:10], found, sums_of(*found)) == frozenset()


def test_all_texts_of_an_axis_have_one_unit() -> None:
    def labels(span_ms: int) -> list[str]:
        run = Epoch(number=0, start_ms=0, end_ms=span_ms, phases=())
        return [tick.label for tick in timeline.pieces([run], timeline.WIDTH)[0].ticks]

    assert labels(60_000)[:3] == ["0 s", "10 s", "20 s"]
    assert labels(2_000)[:3] == ["0.0 s", "0.2 s", "0.4 s"]
    assert {text.split()[1] for span in (50, 999) for text in labels(span)} == {"ms", "s"}
    assert labels(3_600_000)[:2] == ["0 min", "10 min"]
