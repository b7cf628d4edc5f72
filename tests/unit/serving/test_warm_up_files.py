"""Files of a warm-up, and the rate at which their rows are sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.requests import BadDocument
from fedflow.cli import serving_warm_up
from fedflow.cli.serving_warm_up import WarmUpProgress, chosen, columns_of, rows_of, send


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.csv", "\ufeffid,b\n8, x \n,\n", [{"id": "8", "b": "x"}, {"id": "", "b": ""}]),
        ("a.jsonl", '{"id": 8}\n\n{"id": "8", "b": null}\n', [{"id": 8}, {"id": "8", "b": None}]),
        ("a.csv", "id\n", []),
        ("a.jsonl", "", []),
    ],
)
def test_a_file_has_rows(tmp_path: Path, name: str, text: str, rows: list[Any]) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert list(rows_of(path)) == rows
    assert list(rows_of(path, skip=1)) == rows[1:]


@pytest.mark.parametrize(
    ("name", "raw", "where"),
    [
        ("a.csv", b"", "first line"), ("a.csv", b"a,a\n", "first line"),
        ("a.csv", b"a\n1\n1,2\n", "line 3"), ("a.csv", b"\xff\n", "UTF-8"),
        ("a.csv", b'a\n"1', "line 2"), ("a.jsonl", b"[1]\n", "line 1"),
        ("a.jsonl", b'{"a": 1}\n{', "line 2"), ("a.jsonl", b"[" * 100_000, "line 1"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_named_with_its_line(
    tmp_path: Path, name: str, raw: bytes, where: str
) -> None:
    path = tmp_path / name
    path.write_bytes(raw)
    with pytest.raises(BadDocument, match=where):
        list(rows_of(path))


class Time:
    """A clock that goes on by waiting alone, and by what a request takes."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def pause(self, seconds: float, _: object) -> bool:
        self.now_s += seconds
        return False


@pytest.mark.parametrize(
    ("rate", "takes_s", "ends_s", "largest"),
    [(50.0, 0.0, 9.5, 25), (50.0, 0.2, 9.7, 25), (10_000.0, 0.0, 0.03, 300), (0.5, 0.0, 998.0, 1)],
)
def test_rows_are_sent_at_their_rate_and_never_faster(
    monkeypatch: pytest.MonkeyPatch, rate: float, takes_s: float, ends_s: float, largest: int
) -> None:
    clock, sent = Time(), []

    def answer(_session: object, _url: str, body: Any) -> Any:
        clock.now_s += takes_s
        sent.append((clock.now_s, len(body["ids"])))
        return {"rows": len(body["ids"]), "warmed": 0, "retcodes": {"2113": len(body["ids"])}}

    monkeypatch.setattr(serving_warm_up, "pause", clock.pause)
    monkeypatch.setattr(serving_warm_up, "_sent", answer)
    progress = WarmUpProgress()
    session: Any = None
    send(
        session, "u", "s", _rows(500), rate=rate, most=300, progress=progress,
        told=lambda _: None, clock=clock,
    )  # fmt: skip
    assert (progress.rows, progress.retcodes) == (500, {"2113": 500})
    assert max(number for _, number in sent) == largest
    assert clock.now_s == pytest.approx(ends_s, rel=0.1)
    total = 0
    for at_s, number in sent:
        assert total <= rate * at_s + 1e-6
        total += number


def _rows(number: int) -> Iterator[dict[str, Any]]:
    return ({"id": one} for one in range(number))


def test_rows_that_were_too_many_are_sent_again_after_pauses_which_are_not_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, sent = Time(), []

    def answer(_session: object, _url: str, body: Any) -> Any:
        first = body["ids"][0]["id"]
        sent.append((clock.now_s, first))
        refused = {"2124": 1} if first in (0, 20) and len(sent) not in (3, 4) else {}
        return {"rows": len(body["ids"]), "warmed": 10 - len(refused), "retcodes": refused}

    monkeypatch.setattr(serving_warm_up, "pause", clock.pause)
    monkeypatch.setattr(serving_warm_up, "_sent", answer)
    progress = WarmUpProgress()
    session: Any = None
    send(
        session, "u", "s", _rows(40), rate=20.0, most=300, progress=progress,
        told=lambda _: None, clock=clock,
    )  # fmt: skip
    assert [first for _, first in sent] == [0, 0, 0, 10, 20, 20, 20, 20, 30]
    times = [round(at_s, 3) for at_s, _ in sent]
    assert times == [0.0, 1.0, 3.0, 3.5, 4.0, 5.0, 7.0, 11.0, 11.5]
    assert (progress.rows, progress.warmed, progress.retcodes) == (40, 39, {"2124": 1})


def test_only_named_columns_are_sent() -> None:
    columns = columns_of(["device_id=device", "phone"])
    rows = iter([{"id": "1", "device": "a", "phone": "b", "x0": "0.5"}])
    assert list(chosen(rows, columns, "f")) == [{"device_id": "a", "phone": "b"}]
    assert list(chosen(iter([{"a": 1}]), columns_of([]), "f")) == [{"a": 1}]
    with pytest.raises(BadDocument, match="no column 'device'"):
        list(chosen(iter([{"phone": "b"}]), columns, "f"))


@pytest.mark.parametrize("texts", [["=a"], ["a="], ["a", "a=b"], [""]])
def test_an_id_has_a_name_once(texts: list[str]) -> None:
    with pytest.raises(BadDocument, match="not like"):
        columns_of(texts)
