"""The server's own sentences in other languages: none is forgotten, and all keep their values."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import msgspec
import pytest
from flask import Flask

import fedflow
from fedflow.app.initiator import preflight
from fedflow.app.protocol.circuit_breakers import why
from fedflow.app.protocol.party_commands import reason_from_wire, reason_to_wire
from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import ServerRefused
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.messages import (
    Message,
    beside,
    from_structure,
    plain_template,
    received,
    structure,
)
from fedflow.board.language import LANGUAGES
from fedflow.board.message_catalog import (
    catalogue,
    hint_of,
    message_of,
    sentences,
    told,
)
from fedflow.domain.reason import Reason
from fedflow.domain.records import Reply
from fedflow.domain.scheduling import explain, history
from fedflow.domain.site import Site
from fedflow.store.codec import message_from_text, message_to_text, reason_from_text, reason_to_text
from fedflow.wire.commands import ReturnCores, plain
from fedflow.wire.envelope import encode, failure, of_reply, parse_reply
from fedflow.wire.json_text import decode_json
from fedflow.wire.task_report import EndReport, read_report
from fedflow.worker.report import meant

ERRORS = sorted(all_errors(), key=lambda kind: kind.code)
OTHERS = [name for name in LANGUAGES if name != "en"]
ROOT = Path(fedflow.__file__).parent


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
        assert from_structure(structure(error.message)) == error.message
        for text in (error.message, error.message.removesuffix(".")):
            translated = told(text)
            assert translated != text
            assert all(value in translated for value in values)
        assert message_of(error) == told(error.message)
        assert hint_of(error) != error.hint
        remedy = told(explain._remedy(kind.__name__, "12"))
        assert remedy.startswith(hint_of(error))
        assert "runs again what did not succeed" not in remedy


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


def test_every_sentence_of_the_server_is_translated() -> None:
    known = set().union(*catalogue("zh", "reasons").values())
    known |= {text.removesuffix(".") for text in known}
    for module, text in templates():
        assert text in known or not re.search("[a-z]{2}", re.sub(r"\{\w+\}", "", text)), module


def templates() -> Iterator[tuple[Path, str]]:
    """Yield the templates of all messages that code makes, and the module that does."""
    for path in ROOT.rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        if "Message(" not in code:
            continue
        for node in ast.walk(ast.parse(code)):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "Message":
                for text in written(node.args[0]):
                    yield path, plain_template(text)


def written(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node.body if isinstance(node, ast.IfExp) else node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
    if isinstance(node, ast.IfExp):
        yield from written(node.orelse)


def test_no_translation_is_left_over() -> None:
    """A sentence that nobody writes any more needs no translation."""
    source = " ".join(
        "".join(str(part.value) for part in ast.walk(tree) if isinstance(part, ast.Constant))
        for tree in (ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py"))
    )
    source = plain_template(source)
    for texts in catalogue("zh", "reasons").values():
        assert [text for text in texts if text not in source and "part0" not in text] == []


def test_words_for_commands_and_moves_are_translated() -> None:
    known = sentences("zh")
    assert known is not None
    assert set(explain._WORDS.values()) == catalogue("zh", "reasons")["{command}"].keys()
    for text in (*history._SENTENCES.values(), "the scheduler", "its process", "granted"):
        assert known.told(text) != text
    site = Message("reported by {site}", site="host 10000")
    assert "host 10000" in known.told(site) != site


# --- ways from one process to another -------------------------------------------------------------

LOST = PartyUnreachable(
    party_id="10000", address="h:1", reason=Message("no answer within {seconds:g} s", seconds=5)
)
HOST = Site.from_key("host-10000")
NOT_SENT = Message("{site} could not be reached: {error}", site="host 10000", error=str(LOST))


def by_store(text: Message) -> str:
    return message_from_text(message_to_text(text))


def by_reason(text: Message) -> str:
    stored = reason_from_text(reason_to_text(Reason(code="X", message=text)))
    there = reason_from_wire(
        plain(ReturnCores(reason=reason_to_wire(stored, HOST, to=HOST)))["reason"]
    )
    assert there is not None
    return there.message


def by_reply(text: Message) -> str:
    return parse_reply(encode(of_reply(Reply(retcode=103, retmsg=text, error="X")))).retmsg


def by_hop(text: Message) -> str:
    hop = preflight.Hop("9999", "10000", text)
    return preflight._hop(msgspec.json.decode(encode({**hop.to_json(), **beside(text)}))).reason


def by_worker(text: Message) -> str:
    report = json.dumps({"party_status": "failed", "error": {"message": text, **beside(text)}})
    read = read_report(json.loads(report))
    assert isinstance(read, EndReport)
    assert read.error is not None
    return received(read.error.message, read.error.said)


@pytest.mark.parametrize("way", [by_store, by_reason, by_reply, by_hop, by_worker])
@pytest.mark.parametrize("text", [LOST.message, LOST.advice, NOT_SENT, why(LOST)])
def test_a_message_can_be_translated_wherever_it_went(
    way: Callable[[Message], str], text: Message
) -> None:
    known = sentences("zh")
    assert known is not None
    assert way(text) == text
    assert known.told(way(text)) == known.told(text)
    assert not re.search("[a-z]{3}", known.told(text).replace("host", ""))


def test_an_error_that_the_server_told_a_worker_can_be_translated() -> None:
    answer = decode_json(encode(failure(LOST)))
    refused = ServerRefused(
        command="x", retcode=104, reason=answer["retmsg"], error=answer["error"]
    )
    told_again = meant(refused)
    assert isinstance(told_again, PartyUnreachable)
    assert structure(told_again.message) == structure(LOST.message)
