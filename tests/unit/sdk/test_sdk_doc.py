"""docs/sdk.md is printed from fedflow.sdk, and has all that authors import."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fedflow.sdk
import fedflow.sdk.crypto

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def printer() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "bin" / "print-sdk"))


def test_the_page_of_the_sdk_is_current(printer: dict[str, Any]) -> None:
    written = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")
    assert written == printer["page"](), "run bin/print-sdk > docs/sdk.md"


def test_all_that_the_packages_export_is_on_the_page(printer: dict[str, Any]) -> None:
    page = printer["page"]()
    for name in fedflow.sdk.__all__:
        assert f"#### {name}\n" in page or f"| `{name}` |" in page or name == "FedflowError"
    for name in fedflow.sdk.crypto.__all__:
        assert f"#### {name}\n" in page
    for package in (fedflow.sdk, fedflow.sdk.crypto):
        assert sorted(package.__all__) == package.__all__
        assert all(hasattr(package, name) for name in package.__all__)


def test_the_sdk_alone_imports_no_heavy_library() -> None:
    code = (
        "import sys, fedflow.sdk;"
        "print([m for m in ('numpy', 'pyarrow', 'gmpy2') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"


class Undocumented:
    told: int = 1  #: something
    untold: int = 2


def test_a_member_or_function_without_words_is_found(printer: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Undocumented\.untold"):
        printer["members"](Undocumented)
    with pytest.raises(ValueError, match="some has no docstring"):
        printer["function"](lambda_like, "some")


def lambda_like() -> None:
    pass
