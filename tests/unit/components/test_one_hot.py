"""OneHotEncoder against pandas' get_dummies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.features.one_hot import MAX_VALUES, OneHotEncoder
from fedflow.sdk import Model
from tests.unit.components.one_party import GUEST, Party, rows_of, schema_of

NAN = float("nan")
COLUMNS: dict[str, Any] = {
    "id": ["a", "b", "c", "d"],
    "y": [0, 1, 1, 0],
    "size": [10, 2, 10, -3],
    "area": [0.5, 1.5, 2.5, 3.5],
    "colour": ["red", "blue", None, "red"],
}


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def test_columns_are_replaced_in_place_with_values_in_order(party: Party) -> None:
    table = party.table(COLUMNS, anonymous=("guest_9999_x0", "guest_9999_x1", "guest_9999_x2"))
    found = party.run(
        OneHotEncoder, table, transform_col_indexes=[0], transform_col_names=["colour"]
    )
    schema = schema_of(found)
    sizes = ("size_-3", "size_2", "size_10")
    assert schema.columns == (*sizes, "area", "colour_blue", "colour_red")
    assert schema.anonymous == (
        *(f"guest_9999_x0_{i}" for i in range(3)),
        "guest_9999_x1",
        *(f"guest_9999_x2_{i}" for i in range(2)),
    )
    assert schema.label == "y"
    rows = pd.DataFrame(COLUMNS)
    expected = pd.get_dummies(rows, columns=["size", "colour"], dtype=int)
    assert rows_of(found) == {name: expected[name].tolist() for name in schema.names}
    assert found.summary == {"original_dimension": 3, "transferred_dimension": 6}
    assert found.model == Model(
        meta_name="OneHotMeta",
        param_name="OneHotParam",
        meta={
            "transform_col_names": ["size", "colour"],
            "header": ["size", "area", "colour"],
            "need_run": True,
        },
        param={
            "col_map": {
                "size": {"values": ["-3", "2", "10"], "transformed_headers": list(sizes)},
                "colour": {
                    "values": ["blue", "red"],
                    "transformed_headers": ["colour_blue", "colour_red"],
                },
            },
            "result_header": list(schema.columns),
        },
    )


def test_without_anonymous_names_they_go_by_position(party: Party) -> None:
    found = party.run(OneHotEncoder, party.table({"id": ["a"], "x": [0.0], "z": [4]}))
    assert schema_of(found).anonymous == ("guest_9999_x0_0", "guest_9999_x1_0")
    assert GUEST.party_id == "9999"


def test_whole_floats_are_categories_and_missing_ones_are_none_of_them(party: Party) -> None:
    found = party.run(OneHotEncoder, party.table({"id": ["a", "b", "c"], "x": [2.0, NAN, -0.0]}))
    assert rows_of(found) == {"id": ["a", "b", "c"], "x_0": [0, 0, 1], "x_2": [1, 0, 0]}


def test_a_model_knows_no_new_values(party: Party) -> None:
    fitted = party.run(OneHotEncoder, party.table({"id": ["a", "b"], "x": [1, 2]}))
    table = party.table({"id": ["c", "d"], "w": [5, 5], "x": [3.0, 2.0]})
    found = party.run(OneHotEncoder, table, model=fitted.model)
    assert rows_of(found) == {"id": ["c", "d"], "w": [5, 5], "x_1": [0, 0], "x_2": [0, 1]}
    assert found.model == fitted.model


def test_need_run_false_passes_the_table_on(party: Party) -> None:
    table = party.table(COLUMNS)
    found = party.run(OneHotEncoder, table, need_run=False)
    assert found.passed
    assert found.data == (table,)


def test_values_that_are_no_categories_are_counted(party: Party) -> None:
    table = party.table({"id": ["a", "b", "c"], "x": [1.5, 2.0, 1e300]})
    error = party.fails(OneHotEncoder, table)
    assert isinstance(error, BadData)
    assert "column 'x' has 2 of 3 values that are not whole" in str(error)
    fitted = party.run(OneHotEncoder, party.table({"id": ["a"], "x": [1]}))
    error = party.fails(OneHotEncoder, table, model=fitted.model)
    assert "2 of 3" in str(error)


def test_too_many_values_are_counted(party: Party) -> None:
    count = MAX_VALUES + 1
    table = party.table({"id": [str(i) for i in range(count)], "x": np.arange(count)})
    error = party.fails(OneHotEncoder, table)
    assert f"column 'x' has {count} different values in {count} rows" in str(error)


def test_there_must_be_rows_to_fit_to(party: Party) -> None:
    empty = party.table({"id": np.array([], dtype=str), "x": np.array([], dtype=int)})
    assert "has no rows" in str(party.fails(OneHotEncoder, empty))
    model = party.run(OneHotEncoder, party.table({"id": ["a"], "x": [1]})).model
    assert rows_of(party.run(OneHotEncoder, empty, model=model)) == {"id": [], "x_1": []}


def test_a_name_that_is_taken_is_refused(party: Party) -> None:
    error = party.fails(
        OneHotEncoder,
        party.table({"id": ["a"], "x": [1], "x_1": [7]}),
        transform_col_indexes=[0],
    )
    assert "1 of them have the name of another column" in str(error)


def test_missing_columns_and_other_models_are_refused(party: Party) -> None:
    fitted = party.run(OneHotEncoder, party.table({"id": ["a"], "x": [1]}))
    error = party.fails(OneHotEncoder, party.table({"id": ["a"], "z": [1]}), model=fitted.model)
    assert "1 columns of the model are missing: x" in str(error)
    other = Model(meta_name="ScaleMeta", param_name="ScaleParam", meta={}, param={})
    error = party.fails(OneHotEncoder, party.table({"id": ["a"], "x": [1]}), model=other)
    assert "it holds ScaleParam, not OneHotParam" in str(error)


def test_unknown_columns_are_left_out_with_a_warning(
    party: Party, caplog: pytest.LogCaptureFixture
) -> None:
    table = party.table(COLUMNS)
    for indexes, names in (([9], None), (None, ["none"])):
        params = {"transform_col_indexes": indexes, "transform_col_names": names}
        assert rows_of(party.run(OneHotEncoder, table, **params)) == table.read().to_pydict()
    assert "onehotencoder_0.transform_col_indexes: 1 of 1 chosen columns are not" in caplog.text
    assert "onehotencoder_0.transform_col_names: 1 of 1 chosen columns are not" in caplog.text
    error = party.fails(OneHotEncoder, table, transform_col_indexes=[-2])
    assert isinstance(error, BadParameter)
