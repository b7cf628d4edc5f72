"""`bin/new` makes one of each kind in a copy of the tree, and what it made works as it stands.

The checklists are those of docs/architecture.md, "Adding things". A row says who fills the file:
`bin/new`, or you.
"""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[2]
COPIED: Final = ("bin", "conf", "docs", "fedflow", "tests", "pyproject.toml")
NAMES: Final = {
    "component": "row_counter",
    "error": "jobs.job_locked",
    "setting": "scheduling.scan_interval_s",
    "rule": "none_skipped",
    "column": "site_key.note",
    "page": "free_cores",
    "route": "key.describe",
    "noun": "notice",
    "party_command": "job_word",
    "worker_command": "say_word",
}
PARTS: Final = {
    "column": {"part": "administration", "area": "administration"},
    "route": {
        "noun": "key", "area": "administration", "use_case": "keys", "group": "administration",
    },
}  # fmt: skip
"""What else stands for words in angle brackets."""
LIMITS: Final = {
    "column": 5, "noun": 12, "route": 6, "rule": 1, "party_command": 4, "worker_command": 6,
}  # fmt: skip
"""Most source files of a kind, those that are filled by hand included."""
NEW: Final[dict[str, Any]] = runpy.run_path(str(ROOT / "bin" / "new"))

ROUND_TRIP = """
from dataclasses import replace
from pathlib import Path
from fedflow.domain.administration.records import SiteKey
from fedflow.store.connect import open_sqlite

store = open_sqlite(Path("test.sqlite"))
key = SiteKey(party_id="9999", pem="pem", updated_ms=1)
for note in (None, "a word"):
    with store.transaction() as tx:
        tx.site_keys.put(replace(key, note=note))
        assert tx.site_keys.get("9999").note == note
store.close()
"""

REAL_SERVER = """
import sys
from pathlib import Path
import requests
from click.testing import CliRunner
from fedflow.cli.main import cli
from fedflow.client.client import Client
from tests.board.places import serving

with serving(Path(sys.argv[1])) as place:
    with Client(place.url) as client:
        assert client.keys.describe("a word") == "a word"
        client.notices.add("first", "a word")
        assert [one.text for one in client.notices.all()] == ["a word"]
    shell = CliRunner(env={"FEDFLOW_SERVER": place.url})
    done = shell.invoke(cli, ["key", "describe", "a word"])
    assert done.output == "a word\\n", done.output
    done = shell.invoke(cli, ["notice", "add", "second", "another"])
    assert done.exit_code == 0, done.output
    page = requests.get(f"{place.url}/board/notice", timeout=10)
    assert "<dt>first</dt>" in page.text and "<dd>another</dd>" in page.text, page.text
    done = shell.invoke(cli, ["notice", "remove", "first"])
    assert done.output == "first is gone.\\n", done.output
    assert "first" not in shell.invoke(cli, ["notice", "list"]).output
    described = requests.get(f"{place.url}/v1/openapi.json", timeout=10).json()
    tags = {tag["name"]: tag["description"] for tag in described["tags"]}
    assert tags["notice"] == "Texts under names. fedflow's own.", tags["notice"]
    page = requests.get(f"{place.url}/board/free-cores", timeout=10)
    assert page.status_code == 200 and "<dt>STANDALONE</dt>" in page.text, page.text
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One file of a checklist."""

    file: str
    by_hand: bool


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A copy of the tree in which one of each kind was made, and which files that touched."""

    root: Path
    touched: dict[str, list[str]]

    def run(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, *words], cwd=self.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


def checklists() -> dict[str, list[Row]]:
    """Return the rows of each kind's table, with the names that are made here."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", page, flags=re.MULTILINE)
    [text] = [part for part in section if part.startswith("Adding things")]
    found = {}
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        made = re.search(r"`bin/new (\w+) [\w.]+`", part)
        if made is None:
            continue
        rows = re.findall(r"^\| (.*) \| .* \| (bin/new|you) \|$", part, re.MULTILINE)
        found[made[1]] = [
            Row(file=file, by_hand=who == "you")
            for files, who in rows
            for file in re.findall(r"`([^`]+)`", files)
        ]
    return found


def is_source(file: str) -> bool:
    return file.startswith("fedflow/") and file.endswith(".py")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    root = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name)
        else:
            shutil.copy2(ROOT / name, root / name)
    touched, pages = {}, dict[str, str]()
    for kind, name in NAMES.items():
        files, todo = NEW["make"](kind, name, root=root)
        assert todo
        touched[kind] = [*files, *NEW["printed"](kind)]
        pages |= NEW["printed"](kind)
    NEW["print_pages"](pages, root=root)
    yield Copy(root=root, touched=touched)
    shutil.rmtree(root)


def test_there_is_a_checklist_for_each_kind() -> None:
    assert sorted(NAMES) == NEW["kinds"]()
    assert set(NAMES) <= checklists().keys()


@pytest.mark.parametrize("kind", NAMES)
def test_the_checklist_names_the_files_that_are_touched(kind: str, copy: Copy) -> None:
    within, _, name = NAMES[kind].rpartition(".")
    words = {"name": name, "area": within, **PARTS.get(kind, {})}
    listed = [
        re.sub(r"<(\w+)>", lambda match: words[match[1]], row.file)
        for row in checklists()[kind]
        if not row.by_hand
    ]
    assert sorted(listed) == sorted(copy.touched[kind])


@pytest.mark.parametrize("kind", LIMITS)
def test_a_kind_needs_few_source_files(kind: str) -> None:
    assert len([row for row in checklists()[kind] if is_source(row.file)]) <= LIMITS[kind]


def test_what_was_made_is_written_as_the_checks_ask(copy: Copy) -> None:
    made = sorted({f for files in copy.touched.values() for f in files if f.endswith(".py")})
    copy.run("-m", "ruff", "check", *made)
    copy.run("-m", "ruff", "format", "--check", *made)


def test_what_was_made_works_in_a_real_server(copy: Copy, tmp_path: Path) -> None:
    copy.run("-c", ROUND_TRIP)
    copy.run("-c", REAL_SERVER, str(tmp_path))


def test_tests_of_what_was_made_pass(copy: Copy) -> None:
    copy.run(
        "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
        "tests/unit/components/test_row_counter.py",
        "tests/unit/components/test_component_registry.py",
        "tests/unit/components/test_components_doc.py",
        "tests/unit/base/test_errors.py",
        "tests/unit/base/test_settings.py",
        "tests/unit/base/test_public_settings.py",
        "tests/unit/board/test_board_files.py",
        "tests/unit/board/test_free_cores_presenter.py",
        "tests/unit/board/test_message_catalog.py",
        "tests/unit/domain/test_policies.py",
        "tests/unit/web/test_api_doc.py",
        "tests/unit/app/protocol/test_job_word.py",
        "tests/unit/wire/test_worker_commands.py",
        "tests/unit/wire/test_wire_paths.py",
        "tests/integration/test_say_word.py",
    )  # fmt: skip


def test_nothing_is_written_if_a_name_is_refused(tmp_path: Path) -> None:
    for kind, name, reason in (
        ("component", "RowCounter", "the name is NAME"),
        ("setting", "interval_s", "the name is SECTION.NAME"),
        ("column", "no_table.note", "nothing in fedflow/store/sql"),
    ):
        with pytest.raises(NEW["Refused"], match=reason):
            NEW["make"](kind, name, root=tmp_path)
    assert list(tmp_path.iterdir()) == []
