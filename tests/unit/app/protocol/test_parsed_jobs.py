"""Which parsed jobs are kept: a bounded number and size, and not those of one party alone."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.app.protocol import parsed_jobs
from fedflow.app.protocol.parsed_jobs import ParsedJobs
from tests.unit.app.fakes import FakeCatalog, conf, dsl


@pytest.fixture
def specs() -> ParsedJobs:
    return ParsedJobs(FakeCatalog())


def of(party: int, *, size: int = 10) -> dict[str, Any]:
    given = conf(guest=[party], host=[10000], parameters={"common": {"a": {"x": "y" * size}}})
    return {**given, "initiator": {"role": "guest", "party_id": party}}


def kept(specs: ParsedJobs) -> list[str]:
    return list(specs._kept)


def test_what_is_kept_has_a_bounded_size_and_the_newest_is_always_among_it(
    specs: ParsedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsed_jobs, "_KEEP_BYTES", 5_000)
    for number in range(20):
        specs.get(str(number), dsl(), of(1, size=1_000))
    assert kept(specs) == ["17", "18", "19"]
    specs.get("large", dsl(), of(1, size=50_000))
    assert kept(specs) == ["large"]
    specs.get("next", dsl(), of(1))
    assert kept(specs) == ["next"]


def test_large_jobs_of_one_party_push_out_none_of_another(
    specs: ParsedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsed_jobs, "_KEEP_BYTES", 10_000)
    for number in range(5):
        specs.get(f"small-{number}", dsl(), of(1))
    for number in range(20):
        specs.get(f"large-{number}", dsl(), of(2, size=2_000))
    assert [name for name in kept(specs) if name.startswith("small")] == [
        f"small-{n}" for n in range(5)
    ]
    assert "large-19" in kept(specs)


def test_forgotten_and_replaced_jobs_count_no_more(
    specs: ParsedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsed_jobs, "_KEEP", 3)
    for number in range(10):
        specs.get("again", dsl(), of(1, size=number))
        specs.get("gone", dsl(), of(2))
        specs.forget("gone")
    assert kept(specs) == ["again"]
    assert dict(specs._takes) == {"1": specs._sizes["again"]}
    for number in range(5):
        specs.get(str(number), dsl(), of(1))
    assert kept(specs) == ["2", "3", "4"]
