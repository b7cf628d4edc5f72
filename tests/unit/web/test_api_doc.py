"""docs/api.md lists the routes of the application, all of them and no other."""

from __future__ import annotations

import re
from pathlib import Path

from flask import Flask

from fedflow.web import unsupported
from fedflow.web.mounts import served

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text(encoding="utf-8")
SERVED, _, LATER = PAGE.partition("## Not supported yet")


def test_the_page_lists_exactly_the_routes_that_are_served(app: Flask) -> None:
    listed = re.findall(r"^\| `([A-Z]+) (/\S*)` \|", SERVED, re.MULTILINE)
    found = {
        (method, rule.rule)
        for rule, _ in served(app)
        if not rule.endpoint.startswith("board_")  # pages for people
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert set(listed) == found
    assert len(listed) == len(found)


def test_the_page_lists_exactly_what_is_not_supported_yet(app: Flask) -> None:
    listed = re.findall(r"`(/v1/\S*)`", LATER)
    assert sorted(listed) == sorted(unsupported._PATHS)
    assert not set(listed) & {rule.rule for rule, _ in served(app)}
