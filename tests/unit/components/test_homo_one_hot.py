"""HomoOneHotEncoder: the same columns at all parties, whoever has which values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.data_plane import CodecError
from fedflow.components.features import homo_one_hot
from fedflow.components.features.homo_one_hot import (
    HomoOneHotEncoder,
    ValuesCombiner,
    ValuesMember,
)
from fedflow.components.horizontal.rounds import RoundState, Total
from fedflow.sdk import Site
from tests.unit.components.homo_parties import ARBITER, GUEST, HOST, outputs, rows_of, run_homo
from tests.unit.components.in_memory_rounds import run_rounds

ROWS: dict[Site, dict[str, Any]] = {
    GUEST: {"id": ["a", "b", "c"], "size": [10, 2, 10], "hue": ["red", "blue", None]},
    HOST: {"id": ["d", "e"], "size": [-3, 2], "hue": ["größe", "red"]},
}


def member(*values: list[bytes], texts: bool = True) -> ValuesMember:
    names = [f"x{n}" for n in range(len(values))]
    return ValuesMember(names, values, [texts] * len(values), rows=5)


def test_all_parties_get_the_columns_of_all_values(tmp_path: Path) -> None:
    found = outputs(run_homo(HomoOneHotEncoder, ROWS, tmp_path))
    sizes, hues = ["size_-3", "size_2", "size_10"], ["hue_blue", "hue_größe", "hue_red"]
    assert rows_of(found[GUEST]) == {
        "id": ["a", "b", "c"],
        **dict(zip(sizes, ([0, 0, 0], [0, 1, 0], [1, 0, 1]), strict=True)),
        **dict(zip(hues, ([0, 1, 0], [0, 0, 0], [1, 0, 0]), strict=True)),
    }
    assert list(rows_of(found[HOST])) == ["id", *sizes, *hues]
    assert found[HOST].summary == {"original_dimension": 2, "transferred_dimension": 6}
    model = found[HOST].model
    assert model is not None
    assert (model.meta_name, model.param_name) == ("OHEAlignmentMeta", "OHEAlignmentParam")
    assert model.param == found[GUEST].model.param  # type: ignore[union-attr]
    assert found[ARBITER].model.param["col_map"] == {}  # type: ignore[union-attr]


def test_a_model_encodes_other_rows_alone(tmp_path: Path) -> None:
    fitted = outputs(run_homo(HomoOneHotEncoder, ROWS, tmp_path))
    model, told = fitted[GUEST].model, fitted[ARBITER].model
    assert model is not None
    assert told is not None
    later = {GUEST: {"id": ["f"], "size": [-3], "hue": ["green"]}}
    alone = run_homo(HomoOneHotEncoder, later, tmp_path, models={GUEST: model, ARBITER: told})
    found = rows_of(outputs(alone)[GUEST])
    assert [name for name, (cell,) in found.items() if cell == 1] == ["size_-3"]


def test_without_alignment_each_party_has_its_own_columns(tmp_path: Path) -> None:
    found = outputs(run_homo(HomoOneHotEncoder, ROWS, tmp_path, params={"need_alignment": False}))
    assert list(rows_of(found[HOST])) == ["id", "size_-3", "size_2", "hue_größe", "hue_red"]


def test_a_column_that_is_text_anywhere_is_in_the_order_of_the_alphabet() -> None:
    members = {GUEST: member([b"10", b"9"], texts=False), HOST: member([b"9", b"a"])}
    state = run_rounds(ValuesCombiner(), members)
    assert state.notes["values"] == [["10", "9", "a"]]


def test_an_elastic_run_without_a_party_has_no_values_of_it_alone() -> None:
    members = {GUEST: member([b"a", b"b"]), HOST: member([b"c"])}
    state = run_rounds(ValuesCombiner(), members, absent=lambda n: {HOST} if n > 0 else set())
    assert state.notes["values"] == [["a", "b"]]


def test_values_that_are_too_long_are_counted(tmp_path: Path) -> None:
    rows = {**ROWS, HOST: {"id": ["d"], "size": [1], "hue": ["x" * 200]}}
    results = run_homo(HomoOneHotEncoder, rows, tmp_path)
    assert "column 'hue' has 1 values of more than 128 bytes" in str(results[HOST].error)


def test_too_many_values_of_all_are_refused(tmp_path: Path) -> None:
    rows = {
        site: {"id": [f"{start + n}" for n in range(700)], "x": list(range(start, start + 700))}
        for site, start in ((GUEST, 0), (HOST, 600))
    }
    results = run_homo(HomoOneHotEncoder, rows, tmp_path)
    assert "1 columns have more than 1024 different values" in str(results[ARBITER].error)


@pytest.mark.parametrize("wrong", [-1.0, 3.0])
def test_sums_that_are_no_marks_give_the_round_up(wrong: float) -> None:
    combiner = ValuesCombiner()
    state = combiner.begin({site: member([b"a"]).newcomer for site in (GUEST, HOST)})
    layout = combiner.layout(state)
    arrays = {name: np.full(shape, wrong) for name, shape in layout.items()}
    with pytest.raises(ValueError, match="no sums of marks"):
        combiner.combine(state, Total(arrays=arrays, rows=2, counted={GUEST: 1, HOST: 1}))


@pytest.mark.parametrize("notes", [{}, {"unions": [{}]}, {"unions": []}])
def test_a_state_that_is_none_is_refused(notes: dict[str, Any]) -> None:
    with pytest.raises(CodecError):
        member([b"a"]).work(RoundState(round=0, arrays={}, notes=notes), (GUEST,))


@pytest.mark.parametrize(
    "told", [None, [], [["a", "a"]], [["a", 3]], [[str(n) for n in range(1025)]]]
)
def test_values_of_a_lying_arbiter_are_refused(told: Any, tmp_path: Path) -> None:
    class Liar(ValuesCombiner):
        def combine(self, state: RoundState, total: Total) -> RoundState:
            found = super().combine(state, total)
            if not found.ended:
                return found
            return RoundState(
                round=found.round, arrays={}, notes={**found.notes, "values": told}, ended=True
            )

    rows = {site: {"id": [site.party_id], "x": [1]} for site in (GUEST, HOST)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(homo_one_hot, "ValuesCombiner", Liar)
        results = run_homo(HomoOneHotEncoder, rows, tmp_path)
    assert isinstance(results[GUEST].error, CodecError)
