"""The words of events: every sentence that the domain makes is known to the board."""

from __future__ import annotations

from flask import Flask

from fedflow.board.event_texts import reader
from fedflow.domain.scheduling import history


def test_every_sentence_of_an_ordinary_move_is_translated() -> None:
    with Flask(__name__).test_request_context(headers={"Cookie": "ff_language=zh"}):
        told = reader()
        for text in history._SENTENCES.values():
            assert told(text) != text
        for text in ("a user", "the scheduler", "the initiator", "its process", "granted"):
            assert told(text) != text


def test_sites_stay_in_what_they_are_told_of_and_other_text_stays_as_it_is() -> None:
    with Flask(__name__).test_request_context(headers={"Cookie": "ff_language=zh"}):
        told = reader()
        assert "host 10000" in told("reported by host 10000") != "reported by host 10000"
        assert "host 10000" in told("a user at host 10000") != "a user at host 10000"
        assert told("no label: <b>") == "no label: <b>"
