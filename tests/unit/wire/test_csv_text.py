"""Files that people open with spreadsheets."""

from __future__ import annotations

import csv
import io

import pytest

from fedflow.wire.csv_text import csv_text


def read_back(text: str) -> str:
    return next(csv.reader(io.StringIO(csv_text([[text, "end"]]), newline="")))[0]


@pytest.mark.parametrize(
    "text", ["=cmd|' /C calc'!A0", "\n=1+1", "\uff1d1+1", "\uff20x", "@x", "-a", "\t=1", "\r=1"]
)
def test_a_spreadsheet_runs_no_text(text: str) -> None:
    assert read_back(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-1.5", "+3e-7", "-inf", "a=b", "", 'a "b", c'])
def test_numbers_and_other_texts_stay(text: str) -> None:
    assert read_back(text) == text
