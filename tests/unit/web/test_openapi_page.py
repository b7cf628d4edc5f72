"""The page that shows the API: its files, and what a browser may do with them."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

import pytest
from flask.testing import FlaskClient

VENDORED = {
    "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui-bundle.js.LICENSE.txt": "37eb6e7e59aed57b2c1acf076574b818ea07b74265717e0bd67b59e0baf9abbb",  # noqa: E501
    "swagger-ui.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
    "LICENSE": "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
    "NOTICE": "0d20d1adef18aee3f40dd258172155521ce702ac445cb5f7b7d60ed32dad2fb2",
}
"""SHA-256 of what comes from the npm package swagger-ui-dist 5.35.0."""


@pytest.mark.parametrize(("name", "digest"), VENDORED.items())
def test_vendored_files_are_unchanged(name: str, digest: str) -> None:
    content = (resources.files("fedflow.web") / "apidocs" / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest


def test_the_page_loads_its_parts_from_this_server_only(client: FlaskClient) -> None:
    page = client.get("/v1/docs")
    assert (page.status_code, page.mimetype) == (200, "text/html")
    parts = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert parts
    for part in parts:
        assert part.startswith(("/v1/", "data:"))
        if part.startswith("/"):
            assert client.get(part).status_code == 200


@pytest.mark.parametrize(
    ("name", "mimetype"),
    [
        ("swagger-ui-bundle.js", "text/javascript"),
        ("swagger-ui.css", "text/css"),
        ("page.js", "text/javascript"),
        ("LICENSE", "text/plain"),
    ],
)
def test_every_part_has_its_type_and_forbids_other_servers(
    client: FlaskClient, name: str, mimetype: str
) -> None:
    part = client.get(f"/v1/docs/{name}")
    assert (part.status_code, part.mimetype) == (200, mimetype)
    policy = part.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert part.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "name", ["nothing.js", "..%2Fopenapi.py", "%2E%2E", "page.html%00", "README.md"]
)
def test_other_files_are_not_served(client: FlaskClient, name: str) -> None:
    answer = client.get(f"/v1/docs/{name}")
    assert answer.status_code == 404 or answer.json["retcode"] == 100
    assert answer.json["error"]["name"] == "RouteNotFound"
