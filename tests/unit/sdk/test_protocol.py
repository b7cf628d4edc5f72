"""What a component declares that it sends, and that it sends nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedflow.components
from fedflow.components.registry import describe, load_registry
from fedflow.executor.described import check_described
from fedflow.sdk import (
    Content,
    Context,
    DeclaredMessage,
    Outputs,
    Params,
    Role,
    Site,
    UndeclaredMessage,
    component,
    protocol,
    spec_of,
)
from fedflow.testing.run import outputs_of, run_component

GUEST, HOST = Site(Role.GUEST, "9999"), Site(Role.HOST, "10000")
ROOT = Path(fedflow.components.__file__).parent
OWN = protocol("""
sums, counts | masked | guest -> host | of what
flag | settings | host -> guest |
""")


class Nothing(Params, frozen=True, kw_only=True):
    """None."""


class Sends:
    """Sends one number under a name."""

    name = "sums"

    def run(self, ctx: Context) -> Outputs:
        guest, host = ctx.only(Role.GUEST), ctx.only(Role.HOST)
        if ctx.site == guest:
            ctx.federation.send(self.name, 1, to=host)
        else:
            assert ctx.federation.recv(self.name, from_=guest, timeout_s=5.0) == 1
        return Outputs()


def declared(name: str, **how: object) -> type[Sends]:
    kind = type("Sends", (Sends,), {"name": name, "__doc__": "Sends."})
    return component("Sends", roles=("guest", "host"), params=Nothing, **how)(kind)  # type: ignore[arg-type]


def test_a_protocol_is_read_from_lines_and_from_other_protocols() -> None:
    assert (
        DeclaredMessage("sums", Content.MASKED, "guest -> host", "of what"),
        DeclaredMessage("counts", Content.MASKED, "guest -> host", "of what"),
        DeclaredMessage("flag", Content.SETTINGS, "host -> guest"),
    ) == OWN
    assert protocol(OWN, "last | key | guest -> host | n", OWN)[:3] == OWN


@pytest.mark.parametrize(
    "text", ["sums | secret | guest -> host | x", "sums | masked | guest", "sums | ids | a | b"]
)
def test_a_content_that_is_none_or_differs_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"secret|values to unpack|different contents"):
        protocol(OWN, text)


def test_what_is_declared_is_sent_and_nothing_else(tmp_path: Path) -> None:
    sent = outputs_of(
        run_component(declared("sums", messages=OWN), sites=(GUEST, HOST), work_dir=tmp_path)
    )
    assert set(sent) == {GUEST, HOST}
    with pytest.raises(UndeclaredMessage, match="'others'"):
        outputs_of(
            run_component(declared("others", messages=OWN), sites=(GUEST, HOST), work_dir=tmp_path)
        )


def test_who_declares_nothing_sends_anything_but_apart_nothing(tmp_path: Path) -> None:
    assert outputs_of(run_component(declared("others"), sites=(GUEST, HOST), work_dir=tmp_path))
    alone = declared("others", absence="apart")
    assert spec_of(alone).messages == ()
    with pytest.raises(UndeclaredMessage):
        outputs_of(run_component(alone, sites=(GUEST, HOST), work_dir=tmp_path))


def test_servers_and_people_read_what_is_declared() -> None:
    told = describe(spec_of(declared("sums", messages=OWN)))
    check_described([told])
    assert told["messages"][2] == {
        "name": "flag", "content": "settings", "route": "host -> guest", "value": ""
    }  # fmt: skip
    assert describe(spec_of(declared("sums")))["messages"] is None


def names_sent(tree: ast.AST) -> Iterator[str]:
    """Return the names in calls of `send` that are written there."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("send", "send_nothing")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.args[0].value


def test_every_name_that_fedflows_own_components_send_is_declared() -> None:
    known = {m.name for spec in load_registry(found=[]).specs for m in spec.messages or ()}
    inner = {"dist", "tol"}  # of K-means: with the role before it
    sent = {
        name
        for path in ROOT.rglob("*.py")
        for name in names_sent(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert len(sent) > 80
    assert sent - known - inner == set()
