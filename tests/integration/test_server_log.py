"""The log of a server in the background: new files by size, and after another program moved it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging, os, sys
from pathlib import Path
from fedflow.base.log import log_file_of, set_up_logging
path = Path(sys.argv[1])
file = log_file_of(path, max_bytes=int(sys.argv[2]), kept=int(sys.argv[3]))
set_up_logging(level="INFO", style="console", handler=file)
logger = logging.getLogger("fedflow.tests")
"""
LINES = """
for number in range(30):
    logger.info("line %02d %s", number, "x" * 40)
    os.write(1, b"print %02d\\n" % number)
"""


def run(log: Path, program: str, *, size: int, kept: int) -> str:
    """Run a program whose output is the log; return what it printed elsewhere."""
    with log.open("ab") as output:
        subprocess.run(
            [sys.executable, "-c", PROGRAM + program, str(log), str(size), str(kept)],
            stdout=output,
            stderr=output,
            timeout=120,
            check=True,
        )
    return log.read_text()


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_full_log_is_kept_under_a_number_and_a_new_one_begins(tmp_path: Path) -> None:
    run(tmp_path / "server.log", LINES, size=1000, kept=2)
    files = texts(tmp_path)
    assert sorted(files) == ["server.log", "server.log.1", "server.log.2"]
    text = files["server.log.2"] + files["server.log.1"] + files["server.log"]
    numbers = [line[6:8] for line in text.splitlines() if line.startswith("print ")]
    assert numbers == [f"{n:02d}" for n in range(int(numbers[0]), 30)]
    assert all(len(text) < 1100 for text in files.values())
    assert oct((tmp_path / "server.log").stat().st_mode & 0o777) == "0o600"


def test_with_none_kept_there_is_one_file(tmp_path: Path) -> None:
    run(tmp_path / "server.log", LINES, size=1000, kept=0)
    assert list(texts(tmp_path)) == ["server.log"]


def test_without_a_size_the_log_grows(tmp_path: Path) -> None:
    text = run(tmp_path / "server.log", LINES, size=0, kept=5)
    assert list(texts(tmp_path)) == ["server.log"]
    assert text.count("\n") == 60


def test_a_log_that_cannot_be_renamed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "server.log.1").mkdir()
    (tmp_path / "server.log.1" / "file").touch()
    text = run(
        tmp_path / "server.log", "logging.raiseExceptions = False" + LINES, size=1000, kept=1
    )
    assert [f"line {n:02d}" in text for n in range(30)] == [True] * 30


def test_a_log_that_was_moved_away_is_opened_again(tmp_path: Path) -> None:
    program = """
logger.info("before")
path.rename(path.with_name("moved"))
file.reopen()
logger.info("after")
print("printed", flush=True)
"""
    run(tmp_path / "server.log", program, size=0, kept=5)
    files = texts(tmp_path)
    assert "before" in files["moved"]
    assert "after" in files["server.log"]
    assert "printed" in files["server.log"]


def test_another_standard_error_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other.log").touch()
    program = (
        "path = path.with_name('none.log')\nassert log_file_of(path, max_bytes=1, kept=1) is None"
    )
    run(tmp_path / "other.log", program, size=1, kept=1)
    assert sorted(texts(tmp_path)) == ["other.log"]
