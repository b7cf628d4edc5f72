"""Reading numbers from text agrees with Python's own reading, whatever the text."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.components.features.cells import BUILT_IN, BadCells, CellType, SpecialValues, parse

BLANK = SpecialValues.of((), texts=BUILT_IN)
TEXTS = st.lists(
    st.one_of(
        st.floats().map(repr),
        st.integers().map(str),
        st.sampled_from(["", "NA", "+1", " 2", "1_0", "0x2", "1e3", "1.0", "nan", "inf", "٣"]),
        st.text(max_size=3),
    ),
    max_size=8,
)


def expected(text: str, kind: CellType) -> float | int | type[ValueError] | None:
    """Return what one cell means, said as plainly as possible."""
    text = text.strip() if text not in BUILT_IN else text
    if text in BUILT_IN:
        return None
    if not text.isascii() or "_" in text:
        return ValueError
    try:
        number = float(text)
    except ValueError:
        return ValueError
    if math.isnan(number):
        return None
    if math.isinf(number):
        return ValueError
    if kind is CellType.FLOAT:
        return number
    try:
        whole = int(text)
    except ValueError:
        if number != int(number):
            return ValueError
        whole = int(number)
    return whole if -(2**63) <= whole < 2**63 else ValueError


@given(TEXTS, st.sampled_from([CellType.FLOAT, CellType.INT]))
def test_every_cell_is_read_as_python_reads_it(texts: list[str], kind: CellType) -> None:
    wanted = [expected(t, kind) for t in texts]
    column = pa.array(texts, pa.string())
    bad = [i for i, w in enumerate(wanted) if w is ValueError]
    if bad:
        with pytest.raises(BadCells) as caught:
            parse(column, kind, missing=BLANK)
        assert (caught.value.first, caught.value.count) == (bad[0], len(bad))
    else:
        numbers = parse(column, kind, missing=BLANK)
        assert numbers.type == kind.arrow
        assert numbers.to_pylist() == wanted


@pytest.mark.parametrize("kind", list(CellType))
def test_a_column_without_rows_has_its_type(kind: CellType) -> None:
    assert parse(pa.array([], pa.string()), kind, missing=BLANK).type == kind.arrow


def test_marks_match_numbers_in_any_spelling_and_texts_exactly() -> None:
    marks = SpecialValues.of([-1, "2.50", "none", None])
    numbers = pa.array([-1.0, 2.5, 3.0, None])
    assert marks.in_numbers(numbers).to_pylist() == [True, True, False, False]
    texts = pa.array(["none", "None", "2.5", "-1"])
    assert marks.in_text(texts).to_pylist() == [True, True, False, True]
