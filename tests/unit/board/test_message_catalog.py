"""The server's own sentences in other languages: none is forgotten, and all keep their values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from flask import Flask

import fedflow
from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.error import FedflowError
from fedflow.board.language import LANGUAGES
from fedflow.board.message_catalog import (
    catalogue,
    hint_of,
    message_of,
    sentences,
    told,
)
from fedflow.domain.scheduling import explain

ERRORS = sorted(all_errors(), key=lambda kind: kind.code)
OTHERS = [name for name in LANGUAGES if name != "en"]
ROOT = Path(fedflow.__file__).parent

SAYERS = (
    "domain/scheduling/explain.py",
    "domain/scheduling/decide.py",
    "app/protocol/status_pull.py",
    "app/initiator/control.py",
    "app/initiator/initiator.py",
    "app/protocol/queue.py",
    "app/queries/cleaning.py",
    "app/logs/first_error.py",
    "app/queries/jobs.py",
    "store/recording.py",
)
"""Modules that make reasons, waits and remedies beside the errors."""
SAID_AS = frozenset({"message", "remedy"})
IN_HOLES = {
    "how": "was skipped",
    "more": "",
    "reason.message": "x did not succeed",
    "verb": "takes",
    "what": "decides what follows",
    "where": "",
    "why.removesuffix('.')": "x: x",
}
"""What stands in holes that hold more than a value."""


def holes(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in Formatter().parse(text) if name is not None)


@pytest.mark.parametrize("language", OTHERS)
def test_every_error_has_a_translation(language: str) -> None:
    known = catalogue(language, "errors")
    assert sorted({kind.__name__ for kind in ERRORS} - known.keys()) == []
    assert sorted(known.keys() - {kind.__name__ for kind in ERRORS}) == []
    assert all(texts.keys() == {"message", "hint"} for texts in known.values())


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_translations_of_an_error_have_its_fields(kind: type[FedflowError]) -> None:
    for language in OTHERS:
        texts = catalogue(language, "errors")[kind.__name__]
        assert holes(texts["message"]) == holes(kind.template())
        assert holes(texts["hint"]) == holes(kind.hint)


@pytest.mark.parametrize("language", OTHERS)
def test_translations_of_reasons_have_their_holes(language: str) -> None:
    for texts in catalogue(language, "reasons").values():
        for text, translation in texts.items():
            assert holes(translation) == holes(text)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_the_values_of_an_error_stand_in_its_translation(kind: type[FedflowError]) -> None:
    error, values = sample(kind)
    with Flask(__name__).test_request_context(headers={"Cookie": "ff_language=zh"}):
        for text in (error.message, error.message.removesuffix(".")):
            translated = told(text, kind.__name__)
            assert translated != text
            assert all(value in translated for value in values)
        assert message_of(error) == told(error.message, kind.__name__)
        assert hint_of(error) != error.hint
        then = "Then `fedflow job rerun -j 12` runs again what did not succeed."
        remedy = told(f"{kind.hint} {then}", kind.__name__)
        assert remedy.startswith(hint_of(error))
        assert then not in remedy


def test_english_stays_as_it_is() -> None:
    with Flask(__name__).test_request_context(headers={"Cookie": "ff_language=en"}):
        for kind in ERRORS:
            error, _ = sample(kind)
            assert (message_of(error), hint_of(error)) == (error.message, error.hint)


def sample(kind: type[FedflowError]) -> tuple[FedflowError, list[str]]:
    """Return an error and how its fields stand in its sentence."""
    if issubclass(kind, InvalidJobSpec):
        problem = Problem(path="$.dsl<b>", message="it's & {wrong}", rule="LoopError")
        return kind([problem]), [str(problem)]
    fields: dict[str, Any] = {}
    values = []
    for place, (_, name, form, conversion) in enumerate(Formatter().parse(kind.template())):
        if name is None:
            continue
        value: Any = 7.5 + place if form else f"<b>{name}</b> '{{x}}' & {place}"
        fields[name] = value
        values.append(repr(value) if conversion == "r" else format(value, form or ""))
    return kind(**fields), values


# --- sentences that are no error's ----------------------------------------------------------------


@pytest.mark.parametrize("module", SAYERS)
def test_every_reason_wait_and_remedy_is_translated(module: str) -> None:
    known = sentences("zh")
    assert known is not None
    codes = [code for code in catalogue("zh", "reasons") if not code.startswith("{")]
    for text in said(ROOT / module):
        assert any(known.told(text, code) != text for code in codes), text


def said(path: Path) -> Iterator[str]:
    """Yield the sentences that a module says, with a word in every hole."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and name_of(node.func) in ("Wait", "Reason", "End"):
            found = [k.value for k in node.keywords if k.arg in SAID_AS]
        elif isinstance(node, ast.Assign) and name_of(node.targets[0]) in SAID_AS:
            found = [node.value]
        else:
            continue
        for value in found:
            yield from written(value)


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def written(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from (*written(node.body), *written(node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr) and any(isinstance(p, ast.Constant) for p in node.values):
        yield "".join(
            IN_HOLES.get(ast.unparse(piece.value), "x")
            if isinstance(piece, ast.FormattedValue)
            else str(piece.value)
            for piece in node.values
            if isinstance(piece, ast.Constant | ast.FormattedValue)
        )


def test_words_for_commands_and_the_queue_are_translated() -> None:
    known = sentences("zh")
    assert known is not None
    assert set(explain._WORDS.values()) == catalogue("zh", "reasons")["{command}"].keys()
    for text in explain._QUEUE_REMEDIES.values():
        assert known.told(text) != text
