"""The command line against a small real HTTP server."""

from __future__ import annotations

import io
import tarfile

import msgspec
import pytest
from click.testing import CliRunner

from fedflow.cli.main import cli
from fedflow.wire.envelope import failure
from tests.support.rest import Answer, RestServer

NO_KEYS = {
    "FEDFLOW_APP_KEY": "",
    "FEDFLOW_SECRET_KEY": "",
    "XDG_CONFIG_HOME": "/nonexistent",  # nothing that this machine's user stored
}


class Shell:
    """Runs commands against `server`."""

    def __init__(self, server):
        self.server = server

    def __call__(self, *words, reachable=True, env=None, text=None):
        url = self.server.url if reachable else "http://127.0.0.1:1"
        settings = {"FEDFLOW_SERVER": url, **NO_KEYS}
        runner = CliRunner(env={**settings, **(env or {})})
        return runner.invoke(cli, [str(word) for word in words], input=text)

    def json(self, *words, **options):
        result = self(*words, "--json", **options)
        assert result.exit_code == 0, result.output
        return msgspec.json.decode(result.stdout)

    def answer(self, path, data=None, **more):
        self.server.answers[path] = Answer(data=data, **more)

    def refuse(self, path, error):
        self.server.answers[path] = Answer(raw=msgspec.json.encode(failure(error)))

    def archive(self, path, files):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as tar:
            for name, text in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(text.encode())
                tar.addfile(member, io.BytesIO(text.encode()))
        self.answer(path, raw=content.getvalue(), content_type="application/gzip")


@pytest.fixture
def shell():
    with RestServer() as server:
        yield Shell(server)


def view(status="success", **more):
    """Return the answer of job/status."""
    return {
        "job_id": "7",
        "status": status,
        "progress": 100,
        "reason": None,
        "initiator": "guest-9999",
        "roles": {"guest": ["9999"], "host": ["10000"]},
        "created_ms": 1_000,
        "started_ms": 2_000,
        "ended_ms": 5_500,
        "since_ms": None,
        "deadline_ms": None,
        "warnings": [],
        "name": "",
        "figures": [],
        "reused": {},
        "components": ["reader_0"],
        "tasks": [task("guest-9999", "success"), task("host-10000", "success")],
        **more,
    }


def task(site, status, **more):
    """Return one task of a view."""
    return {
        "component": "reader_0",
        "module": "Reader",
        "site": site,
        "version": 0,
        "status": status,
        "progress": 0.0,
        "started_ms": 2_000,
        "ended_ms": 4_000,
        "since_ms": None,
        "deadline_ms": None,
        "running_ms": None,
        "here": True,
        "reason": None,
        **more,
    }


@pytest.fixture
def make_view():
    return view


@pytest.fixture
def make_task():
    return task
