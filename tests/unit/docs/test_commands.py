"""Commands in the pages' shell blocks and sentences exist, with the options that stand there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fedflow.cli.flow.main import cli as flow
from fedflow.cli.main import cli as fedflow
from tests.unit.docs.markdown import ROOT, lines

PROGRAMS = {"fedflow": fedflow, "flow": flow}
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
_BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(fedflow|flow) ([^`]+)`")


def _commands(page: Path) -> Iterator[list[str]]:
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


def _told(page: Path) -> Iterator[list[str]]:
    """Return the commands that sentences and tables name, but for patterns: `fedflow COMMAND`.

    The last option's value may be missing there.
    """
    text = "\n".join(line.text for line in lines(page.read_text(encoding="utf-8")))
    for program, rest in _INLINE.findall(text):
        if "..." not in rest and not rest.startswith("COMMAND"):
            yield [program, *shlex.split(rest)]


def _check(program: click.Command, words: list[str]) -> None:
    """Go down to the command and parse its options. Raises: click.UsageError."""
    command, context = program, click.Context(program, info_name=words[0])
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        assert found is not None, f"there is no command {rest[0]} in {' '.join(words)}"
        command, context = found, click.Context(found, info_name=rest[0], parent=context)
        rest = rest[1:]
    command.make_parser(context).parse_args(rest)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_commands_of_a_page_exist(page: Path) -> None:
    for words in _commands(page):
        name = words[0].rpartition("/")[2]
        if name in PROGRAMS and "..." not in words:
            _check(PROGRAMS[name], [word for word in words if word not in ("&", "&&")])
        elif words[0].startswith("bin/"):
            assert (ROOT / words[0]).is_file(), words[0]
    for words in _told(page):
        try:
            _check(PROGRAMS[words[0]], words)
        except click.BadOptionUsage:
            _check(PROGRAMS[words[0]], [*words, "VALUE"])


def test_the_readme_has_its_commands_and_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 95
    commands = [" ".join(words) for words in _commands(ROOT / "README.md")]
    assert "bin/demo" in commands
    assert any(command.startswith("fedflow job submit") for command in commands)
    named = [
        word for command in commands for word in command.split() if word.startswith("examples/")
    ]
    assert len(named) == 4
    assert all((ROOT / word).is_file() for word in named)
