"""A file of this repository that code or a page cites is there, and so is the heading it names.

A page is cited from the root (`docs/jobs.md#states`) or, in a page, as a link. A Python file is
cited by as much of the end of its path as a reader needs (`executor/watch.py`).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.unit.docs.markdown import ROOT, anchors, lines, links, slug, without_links

_PAGE = re.compile(
    r"(?<![\w/.$}-])(?P<path>(?:[\w.-]+/)*[\w-]+\.md)(?P<anchor>#[\w-]+)?\b"
    r"(?:`?,\s+(?:section\s+)?['\"](?P<heading>[^'\"]+)['\"])?"
)
_NUMBERED = re.compile(r"(?P<path>[\w/.-]+\.md)`?,?\s+sections?\s+\d")
_MODULE = re.compile(r"(?<![\w/.<}$*-])(?P<path>(?:[\w-]+/)+[\w-]+\.py)\b")
_SKIPPED = ("static/vendor/", "tests/unit/docs/test_citations.py", "tests/counts/test_house.py")
_WRITTEN = ("tables.md", "report.md")
"""What a command writes where its user says."""


def _tracked() -> list[str]:
    """Return the files of the repository; a copy without git's folder has its files."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listing.returncode == 0:
        return [name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]
    hidden = (".venv", ".git", "build")
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [str(path) for path in found if path.parts[0] not in hidden]


FILES = frozenset(_tracked())
ENDS = frozenset(
    "/".join(Path(name).parts[start:]) for name in FILES for start in range(len(Path(name).parts))
)


def _cited(name: str, pattern: re.Pattern[str], ending: str) -> Iterator[re.Match[str]]:
    """Return a file's citations of files with this ending.

    A name that is a string of its own is no citation. A citation may go on in the next line.
    """
    text = (ROOT / name).read_text(encoding="utf-8")
    if ending not in text:
        return
    found = [line.text for line in lines(text)] if name.endswith(".md") else text.splitlines()
    for line, following in pairwise([without_links(line) for line in [*found, ""]]):
        if ending in line:
            both = f"{line}\n{following}"
            for match in pattern.finditer(both):
                quoted = both[match.start() - 1 : match.start()] + both[match.end() :][:1]
                if match.start() < len(line) and quoted != '""':
                    yield match


@cache
def _anchors(page: str) -> frozenset[str]:
    return frozenset(anchors((ROOT / page).read_text(encoding="utf-8")))


def _sources() -> list[str]:
    kinds = (".py", ".md", ".yaml", ".toml", ".sh")
    return sorted(
        name
        for name in FILES
        if (name.endswith(kinds) or name.startswith("bin/") or "/messages/" in name)
        and not any(part in name for part in _SKIPPED)
    )


def _wrong_pages(name: str) -> Iterator[str]:
    for match in _cited(name, _PAGE, ".md"):
        path, heading = match["path"], match["heading"]
        page = path if path in FILES else (Path(name).parent / path).as_posix()
        if page not in FILES:
            if path not in _WRITTEN:
                yield f"{path} is not in the repository"
            continue
        anchor = match["anchor"] or (heading and "#" + slug(heading))
        if anchor and anchor[1:] not in _anchors(page):
            yield f"{path} has no heading {anchor}"


def _numbered(name: str) -> Iterator[str]:
    for match in _cited(name, _NUMBERED, ".md"):
        yield f"{match['path']}: headings have no numbers, name one as #anchor"


def _wrong_modules(name: str) -> Iterator[str]:
    for match in _cited(name, _MODULE, ".py"):
        if (path := match["path"]) not in ENDS:
            yield f"{path} is not in the repository"


def _wrong_links(name: str) -> Iterator[str]:
    for number, target in links((ROOT / name).read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (ROOT / name).parent / path if path else ROOT / name
        if not file.exists():
            yield f"line {number}: {target} leads nowhere"
        elif anchor and file.suffix == ".md":
            page = str(file.resolve().relative_to(ROOT))
            if anchor not in _anchors(page):
                yield f"line {number}: {path or name} has no heading #{anchor}"


def _wrong(find: Callable[[str], Iterator[str]], files: Iterable[str]) -> list[str]:
    return [f"{name}: {what}" for name in files for what in find(name)]


def test_every_page_that_is_cited_is_there() -> None:
    assert _wrong(_wrong_pages, _sources()) == []
    assert _wrong(_numbered, _sources()) == []


def test_every_module_that_is_cited_is_there() -> None:
    cited = [name for name in _sources() if not name.startswith("tests/")]
    assert _wrong(_wrong_modules, cited) == []


def test_every_link_leads_somewhere() -> None:
    assert _wrong(_wrong_links, [name for name in _sources() if name.endswith(".md")]) == []


def test_a_citation_that_leads_nowhere_is_found() -> None:
    gone = "Source: `docs/reference/" + "gone.md#here`, and docs/jobs.md" + "#nowhere."
    found = [match.groupdict() for match in _PAGE.finditer(gone)]
    assert [one["path"] for one in found] == ["docs/reference/gone.md", "docs/jobs.md"]
    assert found[1]["anchor"][1:] not in _anchors("docs/jobs.md")
    named = next(_PAGE.finditer("docs/security.md, section 'The board', says")).groupdict()
    assert slug(named["heading"]) in _anchors("docs/security.md")
