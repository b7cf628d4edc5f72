"""LICENSE is the standard text, and NOTICE names every vendored file with component and licence."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib

import pytest

from tests.unit.docs.markdown import ROOT

_APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the text at https://www.apache.org/licenses/LICENSE-2.0.txt."""

NOTICE = (ROOT / "NOTICE").read_text(encoding="utf-8")
(VENDOR,) = [path.parent for path in (ROOT / "fedflow").rglob("static/vendor/manifest.json")]
(SWAGGER,) = [path.parent for path in (ROOT / "fedflow").rglob("swagger-ui-bundle.js")]
OWN = frozenset(("manifest.json", "page.html", "page.js", "README.md"))
"""Files of the vendored folders that are fedflow's."""


def _listed(folder: str) -> set[str]:
    """Return the files that NOTICE lists for a folder, their licences too."""
    files: set[str] = set()
    for part in NOTICE.split("\n\n"):
        if f"Folder: {folder}\n" in part:
            files |= set(re.findall(r"[\w.-]+", part.partition("Files: ")[2].partition("\n")[0]))
            licence = re.search(r"Licence: ([\w./-]+?)\.?\s", part + "\n")
            assert licence, part
            files.add(licence[1].rpartition("/")[2])
    return files


def test_the_licence_is_the_standard_text() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == _APACHE_2


@pytest.mark.parametrize("folder", [VENDOR, SWAGGER], ids=["board", "api page"])
def test_the_notice_lists_every_vendored_file(folder: object) -> None:
    path = ROOT / str(folder)
    there = {file.name for file in path.iterdir() if file.is_file()} - OWN
    assert _listed(path.relative_to(ROOT).as_posix()) == there


def test_the_notice_names_the_vendored_packages_with_version_and_licence() -> None:
    manifest = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))
    for package in manifest["packages"]:
        assert f"{package['name']} {package['version']}, {package['licence']}\n" in NOTICE
    page = (SWAGGER / "README.md").read_text(encoding="utf-8")
    (version,) = re.findall(r"`swagger-ui-dist` ([\d.]+)", page)
    assert f"swagger-ui-dist {version}, Apache-2.0\n" in NOTICE


def test_the_package_has_the_licences_of_what_it_contains() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packed = {file for pattern in project["license-files"] for file in ROOT.glob(pattern)}
    vendored = {ROOT / "LICENSE", ROOT / "NOTICE", SWAGGER / "LICENSE"}
    for folder in (VENDOR, SWAGGER):
        vendored |= set(folder.glob("*.LICENSE.txt"))
    assert packed == vendored
