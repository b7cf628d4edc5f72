"""Threads that read JSON into one class for the first time."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fedflow
from fedflow.base import decoding

PROGRAM = """
from __future__ import annotations

import sys
import threading

import msgspec

from fedflow.base.decoding import read_as

sys.setswitchinterval(1e-6)


def new_class() -> type:
    class Inner(msgspec.Struct):
        a: int = 1

    globals()["Inner"] = Inner

    class Outer(msgspec.Struct):
        x: Inner
        y: int | None
        z: dict[str, list[int]] = {}

    return Outer


for _ in range(300):
    kind = new_class()
    start = threading.Barrier(4)

    def read() -> None:
        start.wait()
        read_as({"x": {"a": 2}, "y": 3}, kind)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_a_new_class_may_be_read_by_several_threads_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


SOURCE = Path(fedflow.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != Path(decoding.__file__))


def unsafe_readings(text: str) -> list[str]:
    """Return the lines that let msgspec look at a type at an unknown moment, in any thread."""
    tree = ast.parse(text)
    at_import = {id(node) for top in tree.body if not is_definition(top) for node in ast.walk(top)}
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and is_unsafe(node, at_import=id(node) in at_import)
    ]


def is_definition(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def is_unsafe(call: ast.Call, *, at_import: bool) -> bool:
    name = ast.unparse(call.func)
    if name == "msgspec.convert":
        return True
    if name.startswith("msgspec.") and name.endswith(".decode"):
        return any(word.arg == "type" for word in call.keywords)
    return name.startswith("msgspec.") and name.endswith(".Decoder") and not at_import


@pytest.mark.parametrize(
    "line",
    [
        "def read(value):\n    return msgspec.convert(value, Kind)",
        "def read(raw):\n    return msgspec.json.decode(raw, type=Kind)",
        "def read(raw):\n    return msgspec.json.Decoder(Kind).decode(raw)",
    ],
)
def test_the_check_of_the_source_sees_a_reading_that_is_not_safe(line: str) -> None:
    assert len(unsafe_readings(line)) == 1


def test_types_are_read_by_read_as_or_by_a_decoder_made_at_import() -> None:
    texts = {path: path.read_text("utf-8") for path in MODULES}
    found = {
        str(path.relative_to(SOURCE)): lines
        for path, text in texts.items()
        if "msgspec" in text and (lines := unsafe_readings(text))
    }
    assert found == {}, "use fedflow.base.decoding.read_as or decode_as"
