"""Reading the text of /metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.serving.metrics import LabelledCounts, LabelledHistogram
from fedflow.wire.prometheus_text import samples


@given(st.dictionaries(st.text(max_size=20), st.integers(0, 10**9), max_size=5))
def test_what_a_process_writes_is_read_whatever_its_labels(counted: dict[str, int]) -> None:
    family = LabelledCounts("requests_total", "Requests.", ("service", "kind"))
    for name, number in counted.items():
        family.add(name, "single", number=number)
    text = "\n".join(family.lines())
    found = {one.labels["service"]: one.value for one in samples(text)}
    assert found == counted


def test_a_histogram_is_read_with_its_bounds() -> None:
    family = LabelledHistogram("seconds", "Times.", ("service",), (0.1, 1.0))
    family.observe(0.5, "credit")
    found = list(samples("\n".join(family.lines())))
    buckets = {one.labels["le"]: one.value for one in found if one.name == "seconds_bucket"}
    assert buckets == {"0.1": 0, "1": 1, "+Inf": 1}


@pytest.mark.parametrize("text", ["", "# TYPE x gauge", "x", "x y", 'x{a="b} 1', "<html>", "{} 1"])
def test_what_is_no_number_is_passed_over(text: str) -> None:
    assert list(samples(text)) == []
