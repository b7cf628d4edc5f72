"""MessageCatalog with holes: what they take apart, and what they leave alone."""

from __future__ import annotations

import pytest

from fedflow.board.presenters.translation import ANY, LONGEST, MessageCatalog, template

KNOWN = {
    "Refused": {"{party} refused {what}: {reason}.": "{what} <- {party} ({reason})"},
    "Again": {"{step} is tried again ({code}: {message})": "again {step} ({code}: {message})"},
    "{what}": {"the job": "JOB"},
    ANY: {"{message} Then run it.": "{message} RUN"},
}


@pytest.fixture
def known() -> MessageCatalog:
    return MessageCatalog(KNOWN)


def test_a_sentence_is_translated_with_what_stands_in_its_holes(known: MessageCatalog) -> None:
    assert known.told("9999 refused x: no.", "Refused") == "x <- 9999 (no)"


def test_a_full_stop_may_be_left_out(known: MessageCatalog) -> None:
    assert known.told("9999 refused x: no", "Refused") == "x <- 9999 (no)"


def test_a_sentence_is_known_by_its_code_only(known: MessageCatalog) -> None:
    for code in ("", "Again", "refused", ANY):
        assert known.told("9999 refused x: no.", code) == "9999 refused x: no."


def test_what_stands_in_a_hole_is_translated_too(known: MessageCatalog) -> None:
    assert known.told("9999 refused the job: the job.", "Refused") == "JOB <- 9999 (the job)"


def test_a_message_is_told_by_the_code_beside_it(known: MessageCatalog) -> None:
    text = "lr_0 is tried again (Refused: 9999 refused x: no.)"
    assert known.told(text, "Again") == "again lr_0 (Refused: x <- 9999 (no))"
    assert known.told("9999 refused x: no. Then run it.", "Refused") == "x <- 9999 (no) RUN"


def test_the_component_that_a_sentence_is_about_may_stand_before_it(known: MessageCatalog) -> None:
    text = "9999 refused x: no."
    assert known.told(f"lr_0: {text}", "Refused") == "lr_0: x <- 9999 (no)"
    assert known.told(f"lr_0 at host 1: {text}", "Refused") == "lr_0 (host 1): x <- 9999 (no)"
    assert known.told("lr_0: something else", "Refused") == "lr_0: something else"


def test_format_strings_in_a_text_are_text(known: MessageCatalog) -> None:
    worst = "{reason.__class__}{0}{"
    assert known.told(f"9999 refused {worst}: {worst}", "Refused") == f"{worst} <- 9999 ({worst})"


def test_a_text_that_is_too_long_stays_as_it_is(known: MessageCatalog) -> None:
    text = "9999 refused x: " + "a" * LONGEST
    assert known.told(text, "Refused") == text
    assert known.told(text[:LONGEST], "Refused").startswith("x <- 9999")


class Counted(str):
    """A text that counts what it is asked."""

    __slots__ = ()
    searches = 0

    def find(self, *given: object) -> int:  # type: ignore[override]
        Counted.searches += 1
        return super().find(*given)  # type: ignore[arg-type]

    def removesuffix(self, suffix: str, /) -> Counted:
        return Counted(super().removesuffix(suffix))


def test_every_literal_is_looked_for_once_whatever_the_text_is() -> None:
    holes = template("{a}, {b}, {c}, {d}, {e} - {f}!")
    Counted.searches = 0
    assert holes.values(Counted(", " * 5000 + "!")) is None
    assert Counted.searches == 5
    assert holes.values("1, 2, 3, 4, 5 - 6!") == dict(zip("abcdef", "123456", strict=True))


def test_deep_nesting_ends(known: MessageCatalog) -> None:
    text = "lr_0: " * 3000
    assert known.told(text, "Refused") == text
    assert known.told("x" + " Then run it." * 1000, "Refused").startswith("x Then run it.")


def test_a_hole_that_stands_twice_has_one_value() -> None:
    twice = template("{a} and {a}.")
    assert twice.values("x and x.") == {"a": "x"}
    assert twice.values("x and y.") is None


def test_literals_may_not_overlap() -> None:
    assert template("ab{x}ba").values("aba") is None
    assert template("ab{x}ba").values("abba") == {"x": ""}
