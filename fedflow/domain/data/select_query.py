"""Tells whether a text is one SELECT that only reads; for queries of bound tables.

The database is asked in a read-only transaction by a user that should have no more rights than it
needs. This check is the first of these fences: it also refuses what a read-only transaction lets
pass (files, locks, waiting). It does not parse SQL: it cuts the text into words outside of quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from fedflow.base.errors.data import QueryNotAllowed

LONGEST: Final = 20_000  #: characters of a query

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<quoted>'[^'\\]*'|"[^"\\]*"|`[^`]*`)
    | (?P<comment>--|\#|/\*)
    | (?P<word>[^\W\d]\w*\$?|@+\w*)
    | (?P<open>['"`])
    | (?P<end>;)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
#: words that write, lock, wait or read files; as names of columns they can be put in backticks
_REFUSED: Final = frozenset(
    {
        "BENCHMARK", "CALL", "CREATE", "DELETE", "DROP", "DUMPFILE", "GET_LOCK", "INSERT", "INTO",
        "LOAD", "LOAD_FILE", "LOCK", "MASTER_POS_WAIT", "OUTFILE", "PROCEDURE", "RELEASE_LOCK",
        "SLEEP", "UPDATE", "NEXTVAL", "SETVAL", "MASTER_GTID_WAIT", "RELEASE_ALL_LOCKS",
        "SHARE", "WAIT_FOR_EXECUTED_GTID_SET", "WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS",
        "SOURCE_POS_WAIT", "SPIDER_DIRECT_SQL", "SPIDER_BG_DIRECT_SQL", "SPIDER_COPY_TABLES",
        "SYS_EXEC", "SYS_EVAL", "REFLECT", "REFLECT2", "JAVA_METHOD", "TRANSFORM",
    }
)  # fmt: skip


def check_select(query: str, *, path: str) -> None:
    """Check that a query is one SELECT; `path` says where in the request it stands.

    Raises: QueryNotAllowed: it is none, is several, has comments, or a backslash in quotes (which
    some servers take for the end of a quote), writes, locks or waits.
    """

    def refused(reason: str) -> QueryNotAllowed:
        return QueryNotAllowed(path=path, reason=reason)

    if len(query) > LONGEST:
        raise refused(f"it has more than {LONGEST} characters")
    words: list[str] = []
    quoted = False
    depth = 0
    for kind, text in _tokens(query):
        depth += (text == "(") - (text == ")")
        if depth < 0:
            raise refused("it closes a bracket that it did not open")
        if quoted and text == "(":
            raise refused("a name in quotes is called as a function")
        if kind == "quoted" and text[0] == "`" and "/" in text:
            raise refused("a name has a slash in it, as a path has")
        quoted = kind == "quoted" or (quoted and kind == "space")
        if kind == "comment":
            raise refused(f"it has a comment ({text})")
        if kind == "open":
            raise refused("a quote is not closed, or a backslash stands in quotes")
        if kind == "end":
            raise refused("it has a `;` before its end: one statement only")
        if kind == "word":
            words.append(text.upper())
    if depth:
        raise refused("a bracket is not closed")
    if not words or words[0] not in ("SELECT", "WITH"):
        raise refused("it must begin with SELECT or WITH")
    if words[0] == "WITH" and "SELECT" not in words:
        raise refused("it has no SELECT")
    if found := next((word for word in words if word in _REFUSED), None):
        raise refused(f"it has the word {found}")
    if found := next((word for word in words if word.startswith("@")), None):
        raise refused(f"it has the variable {found[:50]}")


def without_end(query: str) -> str:
    """Return a checked query without the `;` that may end it."""
    return query.strip().removesuffix(";").rstrip()


def _tokens(query: str) -> Iterator[tuple[str, str]]:
    for found in _TOKEN.finditer(without_end(query)):
        yield str(found.lastgroup), found.group()
