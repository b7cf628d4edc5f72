"""Reads every page of a board that links lead to, and everything that its pages ask for."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import parse_qsl, urljoin, urlsplit

import requests

CALL_S: Final = 60.0
MOST: Final = 3_000  #: answers of one crawl; more means that it does not end
VARIANTS: Final = 4  #: queries with one name that are read of a path
TURNS: Final = 2  #: of those that only turn to another page, order or line
_LINKS: Final = frozenset(
    {"href", "src", "hx-get", "data-src", "data-url", "data-href", "poster", "formaction"}
)
_TURNING: Final = ("page", "sort", "order", "line", "check")  #: how names of such queries end
_SKIPPED: Final = ("/board/static/", "/board/sign-out")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer: where, how, and all the text in it, of packed files too."""

    url: str  #: path and query
    found_on: str
    status: int
    kind: str  #: media type
    headers: dict[str, str]
    text: str

    def __str__(self) -> str:
        return f"{self.status} {self.url} (linked on {self.found_on})"


@dataclass
class Crawl:
    """What one server's board answered."""

    base: str
    answers: list[Answer] = field(default_factory=list)

    def paths(self) -> set[str]:
        """Return the paths that were read, without queries."""
        return {urlsplit(a.url).path for a in self.answers}


def crawl(base: str, start: Iterable[str] = ("/board/",)) -> Crawl:
    """Return every answer that is reached from `start` by GET. Raises: AssertionError: no end."""
    found = Crawl(base)
    waiting = deque((url, "-") for url in start)
    seen = set(start)
    read_of: Counter[tuple[str, str]] = Counter()
    with requests.Session() as session:
        while waiting:
            url, source = waiting.popleft()
            assert len(found.answers) < MOST, f"more than {MOST} pages, at last {url}"
            answer = read(session, base, url, source)
            found.answers.append(answer)
            for link in links_of(answer):
                if link not in seen and is_new(link, read_of):
                    seen.add(link)
                    waiting.append((link, url))
    return found


def is_new(link: str, read_of: Counter[tuple[str, str]]) -> bool:
    """Tell whether some name of a link's query was not read often enough at its path, and count."""
    whole = urlsplit(link)
    names = {name for name, _ in parse_qsl(whole.query, keep_blank_values=True)} or {""}
    new = any(
        read_of[whole.path, name] < (TURNS if name.endswith(_TURNING) else VARIANTS)
        for name in names
    )
    if new:
        read_of.update((whole.path, name) for name in names)
    return new


def read(session: requests.Session, base: str, url: str, source: str = "-") -> Answer:
    """Return what a GET of one address answers, at the end of its redirects."""
    got = session.get(base + url, timeout=CALL_S)
    kind = got.headers.get("Content-Type", "").partition(";")[0]
    return Answer(
        url=url, found_on=source, status=got.status_code, kind=kind, headers=dict(got.headers),
        text=text_of(got.content),
    )  # fmt: skip


def links_of(answer: Answer) -> Iterator[str]:
    """Yield the addresses of this server that an answer names, without fragments."""
    if answer.kind == "text/html":
        parser = _Links()
        parser.feed(answer.text)
        named: Iterable[str] = parser.found
    elif answer.kind == "application/json":
        named = _texts(json.loads(answer.text))
    else:
        return
    for link in named:
        whole = urlsplit(urljoin(f"http://own{answer.url}", link))
        if whole.netloc != "own" or not whole.path.startswith("/"):
            continue
        if whole.path.startswith("/board") and not whole.path.startswith(_SKIPPED):
            yield whole.path + (f"?{whole.query}" if whole.query else "")


def text_of(content: bytes) -> str:
    """Return all text in a body: of archives, the text of every member."""
    if content[:2] == b"\x1f\x8b":
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                members = [(m.name, tar.extractfile(m)) for m in tar if m.isfile()]
                return "\n".join(f"{n}\n{text_of(f.read())}" for n, f in members if f is not None)
        except tarfile.ReadError:
            return text_of(gzip.decompress(content))
    if content[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            names = packed.namelist()
            return "\n".join(f"{name}\n{text_of(packed.read(name))}" for name in names)
    return content.decode("utf-8", errors="replace")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name in _LINKS or (name.startswith("data-") and value[0] == "/")):
                self.found.append(value)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value that look like paths of the board."""
    if isinstance(value, str):
        if value.startswith("/board"):
            yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)
