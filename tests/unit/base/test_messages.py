"""Sentences that know what they were made of, also after a way through JSON that nobody trusts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import msgspec
import pytest

from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.messages import (
    Message,
    english,
    from_structure,
    joined,
    received,
    structure,
    verbatim,
)

INNER = Message("no answer within {seconds:g} s", seconds=5.0)
TEXT = Message("{name!r} failed: {reason}", name="a", reason=INNER)


def test_a_message_is_its_sentence() -> None:
    assert TEXT == "'a' failed: no answer within 5 s"
    assert TEXT.template == "{name} failed: {reason}"
    assert TEXT.fields == {"name": "'a'", "reason": INNER}


def test_a_message_without_one_of_its_fields_cannot_be_made() -> None:
    with pytest.raises(KeyError):
        Message("{a} and {b}", a=1)


@pytest.mark.parametrize("same", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_keep_template_and_fields(same: Any) -> None:
    made = same(TEXT)
    assert (made, made.template, made.fields) == (TEXT, TEXT.template, TEXT.fields)


def test_json_and_back_is_the_same() -> None:
    made = received(str(TEXT), structure(TEXT))
    assert structure(made) == structure(TEXT)
    assert isinstance(made.fields["reason"], Message)


def test_an_error_keeps_its_fields_as_a_message_and_as_text() -> None:
    error = PartyUnreachable(party_id=7, address="h:1", reason=INNER)
    assert error.message.fields["reason"] is INNER
    assert str(error) == f"{error.message} [{error.code}] {error.hint}"
    assert structure(pickle.loads(pickle.dumps(error)).message) == structure(error.message)


@pytest.mark.parametrize(
    "told",
    [
        None,
        "x",
        {"template": "{a}"},
        {"template": "{a}", "fields": {"b": "x"}},
        {"template": "{a}", "fields": {"a": 1}},
        {"template": "{a}{a}", "fields": {"a": "x"}},
        {"template": "{a:>99999999}", "fields": {"a": "x"}},
        {"template": "{a!r}", "fields": {"a": "x"}},
        {"template": "{a.__class__}", "fields": {"a": "x"}},
        {"template": "{a}", "fields": {"a": {"template": "{b}", "fields": {"b": []}}}},
    ],
)
def test_what_is_no_message_is_none(told: Any) -> None:
    assert from_structure(told) is None


def test_messages_in_messages_end() -> None:
    deep: Any = "x"
    for _ in range(1000):
        deep = {"template": "{a}", "fields": {"a": deep}}
    assert from_structure(deep) is None


def test_a_structure_that_says_something_else_does_not_count() -> None:
    assert received("another sentence", structure(TEXT)).template == "{text}"
    assert received("x" * 5000, None) == "x" * 4000


def test_quoted_keeps_a_message_unless_it_is_too_long() -> None:
    assert verbatim(TEXT) is TEXT
    assert verbatim(TEXT, 5).fields == {"text": TEXT[:5]}


def test_the_full_stop_of_the_last_field_is_left_out_too() -> None:
    text = Message("{site}: {message}", site="x", message=Message("{a} is gone.", a=1))
    short = text.removesuffix(".")
    assert short == "x: 1 is gone"
    assert structure(short)["fields"]["message"]["template"] == "{a} is gone"
    assert TEXT.removesuffix(".") is TEXT


def test_joined_messages_keep_their_fields() -> None:
    assert joined([INNER, "x"], "; ") == f"{INNER}; x"
    assert joined([INNER, "x"], "; ").fields["part0"] is INNER


def test_msgspec_writes_a_message_as_text_with_the_hook() -> None:
    assert msgspec.json.encode([INNER], enc_hook=english) == b'["no answer within 5 s"]'
    with pytest.raises(TypeError):
        msgspec.json.encode([object()], enc_hook=english)


def test_a_long_template_is_as_good_as_a_short_one() -> None:
    text = "x" * 1000
    made = Message(text + "{a!r}{b:g}{c}", "A", 2.0, c=3)
    assert made == f"{text}'A'23"
    assert made.template == text + "{a}{b}{c}"
    assert made.fields == {"a": "'A'", "b": "2", "c": "3"}
