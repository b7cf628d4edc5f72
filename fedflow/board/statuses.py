"""How statuses differ without colour: each has a kind with a shape of its own."""

from __future__ import annotations

from typing import Final

from fedflow.board.language import t

KINDS: Final = {
    "waiting": "wait",
    "ready": "wait",
    "pause": "wait",
    "running": "run",
    "success": "ok",
    "pass": "ok",
    "failed": "bad",
    "timeout": "bad",
    "refused": "bad",
    "canceled": "stop",
    "stopped": "stop",
    "skipped": "off",
}
"""Status in lower case -> `wait`, `run`, `ok`, `bad`, `stop` or `off`."""

SHAPES: Final = {
    "wait": "M6 1 A5 5 0 1 1 5.99 1 Z M6 3 V6.5 L8.5 8",
    "run": "M3 1 L11 6 L3 11 Z",
    "ok": "M1 6.5 L4.5 10 L11 2.5",
    "bad": "M2 2 L10 10 M10 2 L2 10",
    "stop": "M2 2 H10 V10 H2 Z",
    "off": "M1.5 6 H10.5",
}
"""Kind -> path in a box of 12 by 12; `run` and `stop` are filled, the others drawn."""


def kind(status: str) -> str:
    """Return the kind of a status of a job or task, in whatever case."""
    return KINDS.get(status.lower(), "off")


def word(status: str) -> str:
    """Return the word for a status in the viewer's language."""
    match status.lower():
        case "waiting":
            return t("waiting")
        case "ready":
            return t("ready")
        case "pause":
            return t("paused")
        case "running":
            return t("running")
        case "success":
            return t("success")
        case "pass":
            return t("passed")
        case "failed":
            return t("failed")
        case "timeout":
            return t("timeout")
        case "refused":
            return t("refused")
        case "canceled":
            return t("canceled")
        case "stopped":
            return t("stopped")
        case "skipped":
            return t("skipped")
        case _:
            return status
