"""The Bloom filter: nothing is lost, and as much passes as was said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.data_plane import CodecError
from fedflow.components.intersection import bloom
from fedflow.components.intersection.bloom import BloomShape


def shape(ids: int, rate: float) -> BloomShape:
    return BloomShape(ids=ids, false_positive_rate=rate, domain=b"d", hash_method="sha256")


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_all_members_pass_and_others_at_the_given_rate(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bloom, "ROWS_PER_BLOCK", 700)
    here = shape(4000, rate)
    data = here.build(pa.array([f"m{i}" for i in range(4000)]))
    assert here.contains(data, pa.array([f"m{i}" for i in range(4000)])).all()
    passing = here.contains(data, pa.array([f"o{i}" for i in range(4000)])).mean()
    deviation = np.sqrt(rate * (1 - rate) / 4000)
    assert abs(passing - rate) < 5 * deviation + 0.15 * rate  # hashes are a whole number


def test_the_size_is_the_textbooks() -> None:
    assert shape(1000, 0.01).bits == 9592  # 9585.06 to whole bytes
    assert shape(1000, 0.01).hashes == 7
    assert shape(1, 0.99).bits == 8


def test_one_or_no_id() -> None:
    here = shape(1, 0.01)
    data = here.build(pa.array(["a"]))
    assert here.contains(data, pa.array(["a"])).tolist() == [True]
    assert here.contains(data, pa.array([], pa.string())).tolist() == []


def test_another_domain_gives_another_filter() -> None:
    one = shape(1, 0.01)
    other = BloomShape(ids=1, false_positive_rate=0.01, domain=b"e", hash_method="sha256")
    assert one.build(pa.array(["a"])) != other.build(pa.array(["a"]))


@pytest.mark.parametrize("value", [b"", b"x" * 1198, None, "x" * 1199, [1]])
def test_what_is_no_filter_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        shape(1000, 0.01).contains(value, pa.array(["a"]))
