"""The counters of the source tree, on small trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.counts.house import (
    any_in_annotations,
    arrows_of_app,
    class_names,
    dead_references,
    dicts_out_of_app,
    house_counts,
    lines_per_package,
    long_functions,
    modules_of,
    upward_arrows,
    wide_constructors,
)


@pytest.fixture
def tree(tmp_path: Path) -> Any:
    """Return a function that writes files and returns the modules of `fedflow`."""

    def write(**files: str) -> Any:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return modules_of(tmp_path, "fedflow")

    return write


def test_lines_are_counted_per_package_and_generated_code_is_not(tree: Any) -> None:
    modules = tree(
        fedflow__store__jobs='"""Doc."""\n\nx = 1\n',
        fedflow__store__deep__rows="x = 1\n",
        fedflow__rpc__pb__a_pb2="x = 1\n",
        fedflow__version="x = 1\n",
    )
    assert lines_per_package(modules) == {"fedflow": 1, "store": 4}


def test_any_counts_in_annotations_only(tree: Any) -> None:
    text = (
        "from typing import Any\n"
        "Alias = dict[str, Any]\n"
        "def f(a: Any, b: dict[str, Any], *c: Any) -> 'list[Any]':\n"
        "    d: Any = Any\n"
    )
    (module,) = tree(fedflow__a=text)
    assert any_in_annotations(module) == 5


def test_dicts_are_counted_where_app_returns_them(tree: Any) -> None:
    text = "def f() -> list[dict[str, Any]]: ...\ndef g(a: dict[str, Any]) -> None: ...\n"
    assert dicts_out_of_app(tree(fedflow__web__a=text, fedflow__app__queries__a=text)) == [
        "fedflow/app/queries/a.py:1"
    ]


def test_class_names_are_collected_with_their_files(tree: Any) -> None:
    text = "class Job: ...\nclass _Own: ...\n"
    found = class_names(tree(fedflow__a__x=text, fedflow__b__y=text))
    assert {name: len(places) for name, places in found.items()} == {"Job": 2}


def test_long_functions_are_those_of_more_than_eighty_lines(tree: Any) -> None:
    def function(lines: int) -> str:
        return "def f():\n" + "    pass\n" * (lines - 1)

    modules = tree(fedflow__a=function(80), fedflow__b=function(81))
    assert long_functions(modules) == ["fedflow/b.py:1"]


def test_a_constructor_is_wide_with_more_than_seven_parameters(tree: Any) -> None:
    def constructor(count: int) -> str:
        names = ", ".join(f"a{i}" for i in range(count))
        return f"class A:\n    def __init__(self, *, {names}): ...\n"

    modules = tree(fedflow__a=constructor(7), fedflow__b=constructor(8))
    assert wide_constructors(modules) == ["fedflow/b.py:2"]


def test_arrows_go_from_a_package_of_app_to_another(tree: Any) -> None:
    modules = tree(
        fedflow__app__ports="x = 1\n",
        fedflow__app__queries__a=(
            "from fedflow.app import ports\nfrom fedflow.app.data import rows\n"
        ),
        fedflow__app__queries__b=(
            "import fedflow.app.queries.a\nfrom fedflow.app.data.rows import x\n"
        ),
        fedflow__app__data__rows="import fedflow.app.queries.a\nfrom fedflow.app.ports import x\n",
        fedflow__web__a="from fedflow.app.data.rows import x\n",
    )
    assert arrows_of_app(modules) == {("queries", "data"), ("data", "queries")}


@pytest.mark.parametrize(
    ("arrows", "upward"),
    [
        ("ab bc ac", 0),
        ("ab ba", 1),
        ("ab bc ca", 1),
        ("ab ba bc cb ca ac", 3),
        ("ab bc cd da db", 1),
    ],
)
def test_upward_arrows_are_the_fewest_of_all_layers(arrows: str, upward: int) -> None:
    assert upward_arrows({(arrow[0], arrow[1]) for arrow in arrows.split()}) == upward


def test_a_reference_is_dead_when_its_file_is_nowhere(tree: Any, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "jobs.md").write_text(
        "See [the api](api.md), [code](../fedflow/app/jobs.py), `gone.md`.\n"
        "https://example.org/x.md\n```\nwritten.md\n```\n"
    )
    (tmp_path / "docs" / "api.md").touch()
    tree(
        fedflow__app__jobs=(
            '"""As docs/jobs.md and `docs/*.md`, not `reference/api.md` or `reference/*.md`."""\n'
            "# `app/jobs.py`, `jobs.py`, `old.py`, FATE's `fate_flow/jobs.py`; api.md: no\n"
            'open("made.md")\n'
        ),
    )
    assert dead_references(tmp_path) == [
        "docs/jobs.md: gone.md",
        "fedflow/app/jobs.py: api.md",
        "fedflow/app/jobs.py: old.py",
        "fedflow/app/jobs.py: reference/*.md",
        "fedflow/app/jobs.py: reference/api.md",
    ]


def test_all_counts_are_taken_together(tree: Any, tmp_path: Path) -> None:
    tree(fedflow__app__a="x = [  # fmt: skip\n]\n")
    counts = house_counts(tmp_path)
    assert counts["lines"] == {"app": 2}
    assert counts["house"]["fmt_skip"] == 1
    assert sum(counts["house"].values()) == 1
