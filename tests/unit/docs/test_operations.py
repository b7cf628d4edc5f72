"""docs/operations.md: the settings that it names exist, and the unit file is one."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from fedflow.base.public_settings import HIDDEN, SHOWN
from fedflow.base.settings import Settings, parse_settings
from tests.unit.docs.markdown import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
UNIT = ROOT / "conf" / "fedflow.service"


def test_the_settings_that_are_named_exist() -> None:
    sections = {path.split(".")[0] for path in (*SHOWN, *HIDDEN)}
    named = [
        word
        for word in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?:: [^`]*)?`", PAGE)
        if word.split(".")[0] in sections and word != "server.log"
    ]
    assert {"log.max_mib", "log.kept", "health.min_free_mib"} <= set(named)
    for word in named:
        assert any(path == word or path.startswith(f"{word}.") for path in (*SHOWN, *HIDDEN)), word


def test_the_confs_are_confs() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        assert isinstance(parse_settings(yaml.safe_load(block)), Settings)


def test_the_defaults_that_are_named_are_the_defaults() -> None:
    settings = Settings()
    assert f"`log.max_mib` ({settings.log.max_mib})" in PAGE
    assert f"`log.kept` ({settings.log.kept})" in PAGE
    assert f"`health.min_free_mib` ({settings.health.min_free_mib})" in PAGE


def _unit(text: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    return unit


def test_the_unit_runs_a_server_whose_workers_outlive_it() -> None:
    unit = _unit(UNIT.read_text(encoding="utf-8"))
    service = unit["Service"]
    assert service["ExecStart"].split()[1:3] == ["server", "run"]
    assert service["KillMode"] == "process"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    text = text.replace("/opt/fedflow/bin/fedflow", shutil.which("true") or "/bin/true")
    unit = tmp_path / "fedflow.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "fedflow.service" not in done.stderr, done.stderr
