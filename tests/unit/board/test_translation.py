"""Messages in another language: a template's translation, and what stands in its fields."""

from __future__ import annotations

import pytest

from fedflow.base.messages import Message, verbatim
from fedflow.board.presenters.translation import MessageCatalog

SENTENCES = {
    "{party} refused {what}: {reason}.": "{what} <- {party} ({reason})。",
    "{step} is tried again ({message})": "again {step} ({message})",
    "it is gone": "GONE",
}
WORDS = {"what": {"the job": "JOB"}}


@pytest.fixture
def known() -> MessageCatalog:
    return MessageCatalog(SENTENCES, WORDS)


def refused(**fields: object) -> Message:
    given = {"party": 9999, "what": "x", "reason": "no", **fields}
    return Message("{party} refused {what}: {reason}.", **given)


def test_a_sentence_is_translated_with_its_fields(known: MessageCatalog) -> None:
    assert known.told(refused()) == "x <- 9999 (no)。"


def test_a_full_stop_may_be_left_out(known: MessageCatalog) -> None:
    assert known.told(refused().removesuffix(".")) == "x <- 9999 (no)"


def test_plain_text_is_known_as_a_whole_or_stays_as_it_is(known: MessageCatalog) -> None:
    assert known.told("it is gone") == "GONE"
    assert known.told(str(refused())) == str(refused())
    assert known.told(verbatim("it is gone")) == "it is gone"


def test_a_word_in_a_field_of_its_name_is_translated(known: MessageCatalog) -> None:
    text = refused(what="the job", reason="the job")
    assert known.told(text) == "JOB <- 9999 (the job)。"


def test_a_message_in_a_field_is_translated(known: MessageCatalog) -> None:
    text = Message("{step} is tried again ({message})", step="lr_0", message=refused())
    assert known.told(text) == "again lr_0 (x <- 9999 (no)。)"


def test_an_unknown_template_keeps_its_words_but_not_its_fields(known: MessageCatalog) -> None:
    assert known.told(Message("{step}: {message}", step="a", message=refused())) == (
        "a: x <- 9999 (no)。"
    )


def test_braces_in_a_field_are_text(known: MessageCatalog) -> None:
    worst = "{reason.__class__}{0}{what}{"
    assert known.told(refused(party=worst, reason=worst)) == f"x <- {worst} ({worst})。"
