"""JSON as people type it: values, places and mistakes."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedflow.board.json_faults import sentence
from fedflow.board.presenters.json_text import (
    FaultKind,
    Lines,
    browser_offset,
    keys_of,
    read_json,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "kind", "start"),
    [
        ("", FaultKind.EMPTY, 0),
        ("  \n", FaultKind.EMPTY, 3),
        ('{"a": 1', FaultKind.NOT_CLOSED, 0),
        ('{"a":', FaultKind.NOT_CLOSED, 4),
        ('{"a":1,}', FaultKind.TRAILING_COMMA, 6),
        ("[1,]", FaultKind.TRAILING_COMMA, 2),
        ("{'a':1}", FaultKind.QUOTES, 1),
        ("{“a”:1}", FaultKind.QUOTES, 1),
        ('{"a":NaN}', FaultKind.NOT_A_NUMBER, 5),
        ('{"a":-Infinity}', FaultKind.NOT_A_NUMBER, 5),
        ('{"a" 1}', FaultKind.NO_COLON, 1),
        ('{"a":1 "b":2}', FaultKind.NO_COMMA, 7),
        ('{"a":1}}', FaultKind.MORE_TEXT, 7),
        ('{"a":"x', FaultKind.OPEN_TEXT, 5),
        ('{"a":"x\n"}', FaultKind.OPEN_TEXT, 5),
        ('{"a":"x\ty"}', FaultKind.CONTROL, 7),
        ('{"a":"\\x"}', FaultKind.BAD_ESCAPE, 6),
        ('{"a":1} // b', FaultKind.COMMENT, 8),
        ("# b\n{}", FaultKind.COMMENT, 0),
        ('{"a":True}', FaultKind.WORD, 5),
        ('{"a":01}', FaultKind.WORD, 5),
        ("{a:1}", FaultKind.NO_KEY, 1),
        ("[,]", FaultKind.UNEXPECTED, 1),
        ('{"a":1]', FaultKind.UNEXPECTED, 6),
        ("[" * 101, FaultKind.TOO_DEEP, 100),
        ("[" * 100_000, FaultKind.TOO_DEEP, 100),
        ("1" * 5000, FaultKind.LONG_NUMBER, 0),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, kind: FaultKind, start: int) -> None:
    read = read_json(text)
    assert not read.is_json
    assert [(f.kind, f.start) for f in read.faults] == [(kind, start)]
    assert sentence(read.faults[0])


def test_names_that_stand_twice_are_all_told_and_the_value_is_still_known() -> None:
    read = read_json('{"a":1,"b":{"c":1,"c":2},"a":3}')
    assert read.is_json
    assert read.value == {"a": 3, "b": {"c": 2}}
    assert [(f.kind, f.found, f.start) for f in read.faults] == [
        (FaultKind.TWICE, "c", 18),
        (FaultKind.TWICE, "a", 25),
    ]
    assert "twice" in sentence(read.faults[0])


@given(VALUES)
def test_what_is_json_is_read_as_the_standard_library_reads_it(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        read = read_json(text)
        assert read.is_json
        assert read.value == value
        assert read.find([]) is not None


@example('"\\')
@given(st.text(alphabet="{}[],:\"\\a1 \n-.eE+NtrueflsI'/", max_size=30))
def test_any_text_has_a_value_or_a_mistake_with_a_sentence(text: str) -> None:
    read = read_json(text)
    assert read.is_json or read.faults
    for fault in read.faults:
        assert 0 <= fault.start <= fault.end <= len(text)
        assert sentence(fault)
    if read.is_json and not read.faults:
        assert read.value == json.loads(text)


def test_a_path_leads_to_its_place_and_a_missing_member_to_its_parent() -> None:
    text = '{"a b": {"c": [1, {"d": "x"}]}}'
    read = read_json(text)
    part = read.find(keys_of('$["a b"].c[1].d'))
    assert part is not None
    assert text[part.key_start : part.end] == '"d": "x"'
    parent = read.find(keys_of('$["a b"].c[7].e'))
    assert parent is not None
    assert text[parent.start : parent.end] == '[1, {"d": "x"}]'


def test_the_keys_of_a_path_are_read_as_they_were_written() -> None:
    assert keys_of('$.dsl.components["a.b\\"c"].input[0]') == (
        "dsl", "components", 'a.b"c', "input", 0,
    )  # fmt: skip
    assert keys_of("$") == ()
    assert keys_of("no path") == ()


def test_lines_and_columns_count_from_one_and_browsers_count_far_characters_twice() -> None:
    text = "a\nb😀c\n"
    assert Lines(text).at(0) == (1, 1)
    assert Lines(text).at(4) == (2, 3)
    assert browser_offset(text, 4) == 5


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert read_json('\ufeff{"a": 1}').value == {"a": 1}
