"""What the board's files must have: translations, hashes of what others wrote, nothing inline."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

import fedflow.board
from fedflow.board.language import LANGUAGES, catalogue

ROOT = Path(fedflow.board.__file__).parent
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SCRIPTS = sorted(p for p in (ROOT / "static").rglob("*.js") if "vendor" not in p.parts)
MODULES = sorted(ROOT.rglob("*.py"))

_DOUBLE = r'"(?:[^"\\]|\\.)*"'
_SINGLE = r"'(?:[^'\\]|\\.)*'"
_TEXT = re.compile(rf"\bt\(\s*({_DOUBLE}|{_SINGLE})((?:\s*{_DOUBLE})*)")
_HOLE = re.compile(r"\{(\w+)\}")


def texts_of(path: Path) -> set[str]:
    """Return the literal first arguments of `t(...)`; Python joins adjacent ones."""
    found = set()
    for match in _TEXT.finditer(path.read_text(encoding="utf-8")):
        parts = [match[1], *re.findall(_DOUBLE, match[2])]
        found.add("".join(_unquoted(part) for part in parts))
    return found


def _unquoted(part: str) -> str:
    inner = part[1:-1]
    return inner.replace("\\'", "'").replace('\\"', '"').replace("\\n", "\n")


@pytest.mark.parametrize("path", TEMPLATES + SCRIPTS + MODULES, ids=lambda p: p.name)
def test_every_text_is_translated(path: Path) -> None:
    for name in LANGUAGES:
        if name != "en":
            missing = sorted(texts_of(path) - catalogue(name).keys())
            assert not missing, f"{name}: {missing}"


def test_no_translation_is_left_over() -> None:
    used = set().union(*(texts_of(p) for p in TEMPLATES + SCRIPTS + MODULES))
    for name in LANGUAGES:
        assert not sorted(catalogue(name).keys() - used)


def test_translations_keep_the_holes_of_their_texts() -> None:
    for name in LANGUAGES:
        for text, translation in catalogue(name).items():
            assert set(_HOLE.findall(text)) == set(_HOLE.findall(translation)), text


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_templates_have_nothing_inline_and_nothing_unescaped(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for tag in re.findall(r"<script\b[^>]*>", text):
        assert "src=" in tag or 'type="application/json"' in tag, tag
    assert not re.findall(r"""\sstyle\s*=\s*["']""", text)
    assert not re.findall(r"""\son[a-z]+\s*=\s*["']""", text)
    assert "|safe" not in text.replace(" ", "")
    assert not re.findall(r"""(?:src|href)\s*=\s*["']https?://""", text)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_scripts_never_make_markup_of_texts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word in (".innerHTML", ".outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text, word


def test_what_others_wrote_is_as_it_was_published() -> None:
    folder = ROOT / "static" / "vendor"
    manifest = json.loads((folder / "manifest.json").read_text())
    known = {"manifest.json"}
    for package in manifest["packages"]:
        for name, entry in package["files"].items():
            known.add(name)
            content = (folder / name).read_bytes()
            assert hashlib.sha256(content).hexdigest() == entry["sha256"], name
    assert {p.name for p in folder.iterdir()} == known
