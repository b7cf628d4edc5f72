"""The command `fedflow`, run in this process against a real server."""

from __future__ import annotations

from click.testing import CliRunner

from fedflow.cli.main import cli
from tests.e2e.servers import Party


def fedflow(party: Party, *words: str, code: int = 0) -> str:
    """Return what `fedflow` printed at a party; it must end with this exit code."""
    env = {"FEDFLOW_SERVER": party.url, "FEDFLOW_APP_KEY": "", "FEDFLOW_SECRET_KEY": ""}
    result = CliRunner(env=env).invoke(cli, words)
    assert result.exit_code == code, result.output
    return result.output
