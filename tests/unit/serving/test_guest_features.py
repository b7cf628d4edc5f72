"""A guest's own features: what is looked up, what wins, and an error per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fedflow.serving.codes import ItemAnswer
from fedflow.serving.guest_features import GuestFeatures
from fedflow.serving.partners.partner_parts import OnlineRow
from fedflow.serving.sources.source import FeatureFault, Ids, open_feature_source

INPUTS = ("x0", "x1")


class Watched:
    """A source that remembers what it was asked, and may fail as a whole."""

    id_names = frozenset({"device_id"})

    def __init__(self, source: Any, *, fault: str = "") -> None:
        self.source = source
        self.fault = fault
        self.asked: list[dict[str, Any]] = []

    def find(
        self, ids: Sequence[Ids], *, deadline_s: float
    ) -> Sequence[Mapping[str, Any] | FeatureFault]:
        self.asked += map(dict, ids)
        if self.fault == "raises":
            raise RuntimeError("secret")
        found: list[Any] = self.source.find(ids, deadline_s=deadline_s)
        return found[1:] if self.fault == "short" else found

    def close(self) -> None:
        self.source.close()


@pytest.fixture
def source(tmp_path: Path) -> Watched:
    path = tmp_path / "f.csv"
    path.write_text("device_id,x0,x1,more\nu1,1,2,3\nu2,4,,5\n")
    return Watched(open_feature_source("table", {"path": str(path), "ids": ["device_id"]}))


def row(features: Mapping[str, object], **ids: Any) -> OnlineRow:
    return OnlineRow(request_id="r", features=features, ids=ids)


def scored(source: Watched, *rows: OnlineRow) -> list[Any]:
    """Return the features that come to the model, or codes."""
    answers = GuestFeatures(source).scored(
        rows,
        INPUTS,
        lambda full: [ItemAnswer(more=dict(one.features)) for one in full],
        deadline_s=1e12,
    )
    return [one.retcode or one.more for one in answers]


def test_what_a_row_lacks_is_looked_up_and_what_the_caller_sends_wins(source: Watched) -> None:
    rows = [
        row({}, device_id="u1"),
        row({"x0": 9.0}, device_id="u1"),
        row({"x1": None}, device_id="u1"),
        row({}, device_id="u2"),
    ]
    assert scored(source, *rows) == [
        {"x0": 1.0, "x1": 2.0},
        {"x0": 9.0, "x1": 2.0},
        {"x0": 1.0, "x1": None},
        {"x0": 4.0},
    ]


def test_a_row_that_lacks_nothing_is_not_looked_up(source: Watched) -> None:
    full = {"x0": None, "x1": 2.0}
    assert scored(source, row(full, device_id="nobody"), row({}, device_id="u2")) == [
        full, {"x0": 4.0},
    ]  # fmt: skip
    assert source.asked == [{"device_id": "u2"}]


def test_a_feature_may_be_an_id_and_that_of_the_partners_comes_first(source: Watched) -> None:
    rows = [row({"device_id": "u1"}), row({"device_id": "u1"}, device_id="u2")]
    assert scored(source, *rows) == [{"x0": 1.0, "x1": 2.0, "device_id": "u1"},
                                     {"x0": 4.0, "device_id": "u1"}]  # fmt: skip
    assert [one.ids for one in rows] == [{}, {"device_id": "u2"}]  # what partners get


def test_each_row_has_its_own_error(source: Watched) -> None:
    rows = [row({}, device_id="u1"), row({}, device_id="nobody"), row({}),
            row({"device_id": [1]}), row({}, device_id="u2")]  # fmt: skip
    assert scored(source, *rows) == [{"x0": 1.0, "x1": 2.0}, 113, 102, 102, {"x0": 4.0}]


@pytest.mark.parametrize("fault", ["raises", "short"])
def test_a_source_that_fails_harms_no_row_that_needs_it_not(source: Watched, fault: str) -> None:
    source.fault = fault
    full = {"x0": 1.0, "x1": 2.0}
    assert scored(source, row({}, device_id="u1"), row(full)) == [116, full]
    assert scored(source, row({}, device_id="u1")) == [116]
