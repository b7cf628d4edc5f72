"""docs/components.md is printed from the declarations of the components."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from fedflow.components.registry import load_registry
from fedflow.sdk import Params

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def printer() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "bin" / "print-components"))


def test_the_page_of_components_is_current(printer: dict[str, Any]) -> None:
    written = (ROOT / "docs" / "components.md").read_text(encoding="utf-8")
    assert written == printer["page"](), "run bin/print-components > docs/components.md"


def test_every_parameter_has_a_meaning(printer: dict[str, Any]) -> None:
    page = printer["page"]()
    for spec in load_registry(found=[]).specs:
        assert f"## {spec.module}\n" in page
        for name in spec.params.__struct_fields__:
            assert f"| `{name}` |" in page


class Undocumented(Params, frozen=True, kw_only=True):
    told: int = 1  #: something
    #: in two
    #: lines
    above: int = 2
    untold: int = 3


def test_a_parameter_without_a_meaning_is_found(printer: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Undocumented\.untold"):
        printer["meanings"](Undocumented)
