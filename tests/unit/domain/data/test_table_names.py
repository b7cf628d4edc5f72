"""Names of namespaces, tables and columns."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.base.errors.data import BadTableName
from fedflow.domain.data.table_names import REPLACED, checked_name, names_in_schema, new_namespace


@pytest.mark.parametrize("name", ["a", "é" * 100, "a b", "../../etc/passwd", "0", "x=y&z", 7])
def test_a_name_may_be_any_readable_text(name: object) -> None:
    assert checked_name("name", name) == str(name)
    assert new_namespace(name) == str(name)


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "\0", "a\x1b[1m", "\u2028", "\ud800"])
def test_a_name_that_nobody_can_read_is_refused(name: str) -> None:
    with pytest.raises(BadTableName) as caught:
        checked_name("name", name)
    assert len(caught.value.message) < 500


def test_the_namespace_of_kept_tables_is_not_for_people() -> None:
    assert checked_name("name", REPLACED) == REPLACED
    with pytest.raises(BadTableName):
        new_namespace(REPLACED)


@pytest.mark.parametrize("header", ["a;b", ["a", " b "], "a; b"])
def test_a_schema_gives_the_names_of_all_columns(header: object) -> None:
    assert names_in_schema({"sid": " k", "header": header}, delimiter=";") == ("k", "a", "b")
    assert names_in_schema({"sid": "k", "header": ""}, delimiter=";") == ("k",)


@pytest.mark.parametrize(
    "schema", [{}, {"sid": "k"}, {"header": "a"}, {"sid": "", "header": "a"},
               {"sid": 1, "header": "a"}, {"sid": "k", "header": 7}]
)  # fmt: skip
def test_a_schema_without_names_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="sid"):
        names_in_schema(schema, delimiter=",")
