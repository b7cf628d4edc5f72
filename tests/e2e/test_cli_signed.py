"""Both commands against a real server that wants signatures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest
import requests
from click.testing import CliRunner, Result

from fedflow.cli.flow.main import cli as flow
from fedflow.cli.main import cli as fedflow
from fedflow.client import Client
from tests.e2e.servers import DATA, QUICK, Party, standalone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

KEYS = ("--app-key", "an app", "--secret-key", "a secret")
SIGNED = {
    **QUICK,
    "FEDFLOW__AUTHENTICATION__CLIENT__SWITCH": "true",
    "FEDFLOW__AUTHENTICATION__CLIENT__HTTP_APP_KEY": "an app",
    "FEDFLOW__AUTHENTICATION__CLIENT__HTTP_SECRET_KEY": "a secret",
}


@dataclass
class Place:
    """A server that wants signatures, and an own configuration folder."""

    party: Party
    folder: Path

    def run(self, program: click.Command, *words: object, **env: str | None) -> Result:
        kept = {"FEDFLOW_SERVER": None, "FEDFLOW_APP_KEY": None, "FEDFLOW_SECRET_KEY": None}
        settings = {**kept, "XDG_CONFIG_HOME": str(self.folder), **env}
        return CliRunner(env=settings).invoke(program, [str(word) for word in words])

    def init(self, *keys: str) -> None:
        where = urlsplit(self.party.url)
        words = ("init", "--ip", where.hostname, "--port", where.port, *keys)
        assert self.run(flow, *words).exit_code == 0


@pytest.fixture(scope="module")
def party(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Party]:
    with standalone(tmp_path_factory.mktemp("signed"), settings=SIGNED) as pair:
        yield pair.guest


@pytest.fixture
def place(party: Party, tmp_path: Path) -> Place:
    return Place(party, tmp_path)


def test_stored_keys_sign_queries_uploads_and_downloads(place: Place) -> None:
    place.init(*KEYS)
    conf = {"file": str(DATA / "breast_hetero_guest.csv"), "head": 1, "partition": 4,
            "namespace": "a b&c", "table_name": "t=1"}  # fmt: skip
    path = place.folder / "upload.json"
    path.write_text(json.dumps(conf))
    result = place.run(flow, "data", "upload", "-c", path)
    assert result.exit_code == 0, result.output
    job_id = json.loads(result.stdout)["jobId"]
    assert place.run(fedflow, "job", "wait", "-j", job_id).exit_code == 0
    for words in (("server", "versions"), ("queue", "clean"), ("task", "list")):
        assert place.run(flow, *words).exit_code == 0
    words = ("table", "download", "-n", "a b&c", "-t", "t=1", "-o", place.folder)
    assert place.run(fedflow, *words).exit_code == 0
    assert (place.folder / "table.csv").is_file()


@pytest.mark.parametrize("keys", [(), ("--app-key", "an app", "--secret-key", "wrong")])
def test_bad_keys_are_one_sentence(place: Place, keys: tuple[str, ...]) -> None:
    place.init(*keys)
    result = place.run(fedflow, "job", "list")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "Hint: " in result.stderr
    answer = place.run(flow, "job", "list")
    assert (answer.exit_code, json.loads(answer.stdout)["retcode"]) == (1, 109)
    assert "a secret" not in result.output + answer.output


def test_keys_of_the_environment_come_first(place: Place) -> None:
    place.init("--app-key", "an app", "--secret-key", "wrong")
    env = {"FEDFLOW_APP_KEY": "an app", "FEDFLOW_SECRET_KEY": "a secret"}
    assert place.run(fedflow, "job", "list", **env).exit_code == 0


def test_the_client_signs_its_requests(party: Party) -> None:
    with Client(party.url, app_key="an app", secret="a secret") as client:
        assert client.jobs().count >= 0


def test_a_signed_client_makes_an_account_whose_password_opens_the_board(
    place: Place, party: Party
) -> None:
    place.init(*KEYS)
    words = ("board", "user", "add", "ann", "--role", "admin")
    assert place.run(fedflow, *words, FEDFLOW_SECRET_KEY="wrong", FEDFLOW_APP_KEY="x").exit_code
    with requests.Session() as browser:
        page = browser.get(f"{party.url}/board/settings", timeout=20)
        assert page.url.startswith(f"{party.url}/board/sign-in")
        assert "fedflow board user add NAME --role admin" in page.text
        made = place.run(fedflow, *words)
        assert made.exit_code == 0, made.output
        password = made.stdout.split()[-1]
        page = browser.get(f"{party.url}/board/settings", timeout=20)
        token = re.findall(r'name="csrf" value="([^"]+)"', page.text)[-1]
        fields = {"csrf": token, "name": "ann", "password": password, "next": "/board/settings"}
        assert "scheduling.lease_s" in browser.post(
            f"{party.url}/board/sign-in", data=fields, timeout=20
        ).text  # fmt: skip
        signed_out = place.run(fedflow, "board", "user", "sign-out", "ann", "--json")
        assert json.loads(signed_out.stdout) == {"name": "ann", "ended": 1}
        assert "/board/sign-in" in browser.get(f"{party.url}/board/settings", timeout=20).url
    listed = place.run(fedflow, "board", "user", "list", "--json").stdout
    assert password not in listed
    assert place.run(fedflow, "board", "user", "remove", "ann", "--yes").exit_code == 0
    log = party.log.read_text(errors="replace")
    assert "ann signed in" in log
    assert password not in log
