"""JSON from outside: the number of values is bounded before one of them is built."""

from __future__ import annotations

import pytest

from fedflow.base.errors.requests import BadRequest
from fedflow.wire.json_text import MAX_VALUES, decode_json


@pytest.mark.parametrize("item", ["[]", "{}", "0"])
def test_a_text_with_too_many_values_is_refused(item: str) -> None:
    text = "[" + ",".join([item] * (MAX_VALUES + 1)) + "]"
    for raw in (text, text.encode()):
        with pytest.raises(BadRequest, match="more than 2000000 values"):
            decode_json(raw)


def test_a_long_text_with_few_values_is_read() -> None:
    text = '["' + "x" * (3 * MAX_VALUES) + '",1]'
    assert decode_json(text)[1] == 1


def test_who_expects_more_values_may_say_so() -> None:
    text = b"[" + b",".join([b"0"] * (MAX_VALUES + 1)) + b"]"
    assert len(decode_json(text, max_values=2 * MAX_VALUES)) == MAX_VALUES + 1
