"""FATE's own clients as a user has them: from the package index, in environments of their own.

`bin/clients` installs them. They print JSON and always exit with 0, so what they printed is judged.
They keep the server's address in their environment: `at` points them at another server, and two
tests must not use one environment at the same time.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.e2e.servers import ROOT

Json = dict[str, Any]

FOLDER = Path(os.environ.get("FEDFLOW_CLIENTS", ROOT / ".clients"))
_NOISE = "Import torch failed"


@dataclass(frozen=True)
class Keys:
    """What a client signs its requests with."""

    app_key: str
    secret_key: str


@dataclass
class Environment:
    """One virtual environment with FATE's clients; commands run in `cwd`."""

    name: str
    cwd: Path
    keys: Keys | None = None
    settings: dict[str, str] = field(default_factory=dict)  #: more environment variables
    _at: str = field(default="", init=False)

    def __post_init__(self) -> None:
        missing = f"{self.bin} is missing: run bin/clients, which installs FATE's clients"
        assert (self.bin / "python").exists(), missing

    @property
    def bin(self) -> Path:
        return FOLDER / self.name / "bin"

    @property
    def server(self) -> str:
        """Return the address that the clients are pointed at."""
        return self._at

    def at(self, url: str) -> Self:
        """Point `flow` and `pipeline` at a server."""
        if url != self._at:
            where = urlsplit(url)
            words = ["init", "--ip", str(where.hostname), "--port", str(where.port)]
            self.run("flow", "init", "--reset")
            if self.keys is not None:
                words += ["--app-key", self.keys.app_key, "--secret-key", self.keys.secret_key]
            assert self.flow(*words)["retcode"] == 0
            self.run("pipeline", *words)
            self._at = url
        return self

    def forget(self) -> None:
        """Let the next `at` point the clients anew."""
        self._at = ""

    def run(self, program: str, *words: object, timeout_s: float = 50.0) -> str:
        """Run a program of the environment and return what it printed, errors included."""
        done = subprocess.run(
            [str(self.bin / program), *(str(w) for w in words)],
            cwd=self.cwd,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.cwd),
                "PYTHONWARNINGS": "ignore",
                **self.settings,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        kept = [line for line in done.stdout.splitlines() if not line.startswith(_NOISE)]
        return "\n".join(kept)

    def flow(self, *words: object, timeout_s: float = 50.0) -> Json:
        """Run `flow` and return the JSON that it printed. Raises: AssertionError: it is none."""
        printed = self.run("flow", *words, timeout_s=timeout_s)
        try:
            answer = json.loads(printed)
        except ValueError:
            raise AssertionError(f"flow {' '.join(map(str, words))} printed:\n{printed}") from None
        assert isinstance(answer, dict), printed
        return answer

    def ok(self, *words: object) -> Any:
        """Run `flow` and return `data` of a success; the whole answer if it has none."""
        answer = self.flow(*words)
        assert answer["retcode"] == 0, f"flow {' '.join(map(str, words))}: {answer}"
        return answer.get("data", answer)

    def python(self, script: str, *words: object, timeout_s: float = 55.0) -> Any:
        """Run a Python script in the environment and return the JSON of its last printed line."""
        path = self.cwd / "script.py"
        path.write_text(script, encoding="utf-8")
        printed = self.run("python", path, *words, timeout_s=timeout_s)
        try:
            return json.loads(printed.splitlines()[-1])
        except (ValueError, IndexError):
            raise AssertionError(f"the script printed:\n{printed}") from None

    def file(self, name: str, value: Any) -> Path:
        """Write a JSON file into the working folder and return its path."""
        path = self.cwd / name
        path.write_text(json.dumps(value), encoding="utf-8")
        return path
