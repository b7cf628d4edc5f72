"""What the server says is made from templates: no reason from an f-string, no text cut apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Final

import pytest

import fedflow

ROOT: Final = Path(fedflow.__file__).parent
MODULE: Final = "base/messages.py"
DYNAMIC: Final = {"base/errors/error.py": "self.template()"}
"""Templates that stand elsewhere: an error's is the docstring of its class."""

VERBATIM: Final = frozenset(
    {
        "app/initiator/delivery.py",  # what kept a command, which may be a peer's answer
        "app/initiator/initiator.py",  # a peer's answer
        "app/initiator/preflight.py",  # a peer's answer
        "app/initiator/site_checks.py",  # a peer's answer
        "app/initiator/submissions.py",  # an error of any length
        "app/protocol/circuit_breakers.py",  # an error of any length
        "base/errors/error.py",  # an error that another process told by its sentence
        "board/findings.py",  # the next ones only shorten messages
        "board/model_actions.py",
        "board/presenters/dag.py",
        "board/presenters/parties.py",
        "board/presenters/queue.py",
        "domain/scheduling/explain.py",  # a warning, which is stored as a text
        "store/codec.py",  # a stored text
        "worker/run.py",
    }
)
"""Modules that may take a text as it is; all others say what it is made of."""


def modules() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name != MODULE:
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def mistakes(name: str, tree: ast.AST) -> Iterator[str]:
    """Yield the calls that make a message or a reason of text whose parts are lost."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called == "Message" and not (_is_template(node.args[0], name) and _fits(node)):
            yield ast.unparse(node)
        if called == "Reason" and "wire" not in name:
            texts = (k.value for k in node.keywords if k.arg == "message")
            yield from (
                ast.unparse(t) for t in texts if isinstance(t, ast.JoinedStr | ast.Constant)
            )
        if called == "verbatim" and name not in VERBATIM:
            yield ast.unparse(node)


def _is_template(node: ast.expr, name: str) -> bool:
    """Tell whether it is a literal, or one of two."""
    if isinstance(node, ast.IfExp):
        return _is_template(node.body, name) and _is_template(node.orelse, name)
    return isinstance(node, ast.Constant) or ast.unparse(node) == DYNAMIC.get(name)


def _fits(call: ast.Call) -> bool:
    """Tell whether a call gives each field of its literal template one value."""
    if not isinstance(call.args[0], ast.Constant):
        return True
    holes = [name for _, name, _, _ in Formatter().parse(call.args[0].value) if name is not None]
    named = [k.arg for k in call.keywords]
    by_place = len(call.args) - 1
    return (
        sorted(holes) == sorted(set(holes))
        and set(holes[by_place:]) <= {*named}
        and (by_place <= len(holes))
    )


def test_every_message_has_a_template() -> None:
    assert [(name, found) for name, tree in modules() for found in mistakes(name, tree)] == []


@pytest.mark.parametrize(
    "source",
    [
        'Message(f"{x} failed")',
        "Message(text)",
        'Message("a" if x else f"{x}")',
        'Message("{a} and {a}", a)',
        'Message("{a} and {b}", a)',
        'Message("{a}", a, b)',
        'Reason(code="X", message=f"{x} failed")',
        'Reason(code="X", message="it failed")',
        "verbatim(text)",
    ],
)
def test_text_without_a_template_is_found(source: str) -> None:
    assert list(mistakes("app/x.py", ast.parse(source)))
