"""The accuracy report: its quick part holds, and a number that is off is a failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.accuracy import __main__ as accuracy
from benchmarks.accuracy import boosters, boosting
from benchmarks.accuracy.data import DataFolder
from benchmarks.accuracy.rows import Check, Row, Rows

DATA = str(Path(__file__).parents[3] / "examples" / "data")
ROWS = Rows("HeteroLR", "breast", "numpy")


QUICK = [check.name for check in accuracy.CHECKS if check.quick]


@pytest.mark.parametrize("name", QUICK)
def test_the_quick_part_holds_on_the_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert accuracy.main(["--quick", "--only", name, "--data", DATA]) == 0
    table = capsys.readouterr().out
    assert "FAILED" not in table
    assert len(table.splitlines()) > 2


def test_the_quick_part_has_encrypted_models_and_ids() -> None:
    assert {"lr-published", "binning-quantile", "pearson", "intersection"} <= set(QUICK)


def test_a_number_that_is_off_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(data: DataFolder, folder: Path) -> Iterator[Row]:
        yield ROWS.one("AUC", 0.9, 0.9051, 0.005)
        yield ROWS.one("AUC", 0.9, 0.9049, 0.005)

    monkeypatch.setattr(accuracy, "CHECKS", (Check(name="off", make=make),))
    assert accuracy.main(["--data", DATA]) == 1
    first, second = capsys.readouterr().out.splitlines()[2:4]
    assert "**FAILED**" in first
    assert "ok" in second


def test_data_that_are_not_there_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert accuracy.main(["--data", "/nowhere", "--only", "baseline"]) == 2
    assert "There is no /nowhere/breast_hetero_guest.csv" in capsys.readouterr().err


def test_tools_that_are_not_installed_are_named_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(data: DataFolder, folder: Path) -> Iterator[Row]:
        yield ROWS.one("AUC", 0.9, 0.9, 0.0)
        how = boosters.Boosting(kind=boosters.BINARY, rounds=1)
        yield from boosting.against_tools(data.breast(), how, {}, name="trees")

    for module in (accuracy, boosting):
        monkeypatch.setattr(module, "installed", lambda tool: False)
    monkeypatch.setattr(accuracy, "CHECKS", (Check(name="trees", make=make),))
    page = tmp_path / "accuracy.md"
    monkeypatch.setattr(accuracy, "PAGE", page)
    assert accuracy.main(["--data", DATA]) == 0
    found = capsys.readouterr()
    assert "Not installed: xgboost and lightgbm." in found.err
    assert "pip install --editable '.[accuracy]'" in found.err
    assert found.out.count("| ok |") == 1
    assert accuracy.main(["--write", "--data", DATA]) == 2
    assert not page.exists()


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(SystemExit, match="no check nothing; there are"):
        accuracy.main(["--only", "nothing"])


def test_the_pair_that_differs_most_is_shown() -> None:
    nan = float("nan")
    row = ROWS.worst("woe", [[1.0, 2.0], [nan, -4.0]], [[1.0, 2.1], [nan, -4.1]])
    assert (row.expected, row.found) == (2.0, 2.1)
    assert row.difference == pytest.approx(0.05)
    assert row.measure == "woe (the worst of 4)"
    absolute = ROWS.worst("woe", [2.0, -4.0], [2.1, -4.2], relative=False)
    assert absolute.difference == pytest.approx(0.2)


@pytest.mark.parametrize("found", [float("nan"), float("inf")])
def test_what_is_no_number_fails(found: float) -> None:
    assert not ROWS.one("AUC", 0.9, found, 1e9).passed
    assert not ROWS.worst("AUC", [0.5, 0.9], [0.5, found], 1e9).passed


def test_at_least_takes_more_and_not_less() -> None:
    more, less, endless = (
        ROWS.one("AUC", 0.9, found, 0.0, at_least=True) for found in (0.95, 0.8999, float("inf"))
    )
    assert more.passed
    assert more.cells()[6:] == ("0", "at least", "ok")
    assert not less.passed
    assert less.difference == pytest.approx(1e-4)
    assert not endless.passed


def test_small_numbers_are_relative_to_a_thousandth() -> None:
    assert ROWS.worst("woe", [0.0], [1e-10]).passed
    assert not ROWS.worst("woe", [0.0], [1e-8]).passed


def test_different_shapes_are_no_comparison() -> None:
    with pytest.raises(ValueError, match="against"):
        ROWS.worst("woe", [1.0, 2.0], [1.0])
