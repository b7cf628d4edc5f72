"""Sentences for what is wrong with a JSON text."""

from __future__ import annotations

from fedflow.board.language import t
from fedflow.board.presenters.json_text import MAX_DEPTH, MAX_DIGITS, Fault, FaultKind


def sentence(fault: Fault) -> str:
    """Return what is wrong, for people."""
    found = fault.found
    match fault.kind:
        case FaultKind.EMPTY:
            return t("There is no text yet.")
        case FaultKind.NOT_A_NUMBER:
            return t("{word} is no number in JSON; leave the member out, or use null.", word=found)
        case FaultKind.QUOTES:
            return t('JSON knows straight double quotes (") only, not {quote}.', quote=found)
        case FaultKind.COMMENT:
            return t("JSON has no comments; remove it.")
        case FaultKind.TRAILING_COMMA:
            return t("There is a comma after the last member; remove it.")
        case FaultKind.NO_COMMA:
            return t("A comma is missing before {found}.", found=found)
        case FaultKind.NO_COLON:
            return t('A colon is missing after the name "{name}".', name=found)
        case FaultKind.NO_KEY:
            return t("The name of a member must be in double quotes, not {found}.", found=found)
        case FaultKind.OPEN_TEXT:
            return t("This text has no closing double quote on its line.")
        case FaultKind.CONTROL:
            return t("The control character {code} must be written as an escape.", code=found)
        case FaultKind.BAD_ESCAPE:
            return t("{found} is no escape in JSON; a backslash is written twice.", found=found)
        case FaultKind.NOT_CLOSED:
            return t("The bracket {found} is never closed.", found=found)
        case FaultKind.MORE_TEXT:
            return t("There is more text after the end of the value.")
        case FaultKind.TOO_DEEP:
            return t("It is nested deeper than {n} levels.", n=MAX_DEPTH)
        case FaultKind.LONG_NUMBER:
            return t("The number has more than {n} characters.", n=MAX_DIGITS)
        case FaultKind.TWICE:
            return t(
                'The name "{name}" is used twice; all but the last value would be lost.', name=found
            )
        case FaultKind.WORD:
            return t(
                "{word} is no value; JSON knows texts, numbers, true, false, null.", word=found
            )
        case FaultKind.UNEXPECTED:
            return t("A value or a closing bracket is expected here, not {found}.", found=found)
