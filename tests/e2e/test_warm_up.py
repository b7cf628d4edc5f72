"""Caches of a serving process are filled from a table of the party's Flow server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import yaml

from tests.e2e.servers import QUICK, Party, environment, standalone
from tests.support.serving_processes import ServingPlace, serving_pair

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

USERS = "id,device,x0\n1,u1,0.5\n2,u2,0.25\n3,nobody,1\n"


@pytest.fixture(scope="module")
def places(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Party, ServingPlace, ServingPlace]]:
    """Give a Flow server with a table of users, and serving processes of a guest and a host."""
    folder = tmp_path_factory.mktemp("warm_up")
    with ExitStack() as stack:
        pair = stack.enter_context(standalone(folder, settings=QUICK))
        users = folder / "users.csv"
        users.write_text(USERS, encoding="utf-8")
        assert pair.guest.upload(users, "users", drop=True).succeeded
        guest, host = serving_pair(folder / "serving", caches={"partners": {"enabled": True}})
        stack.callback(host.stop)
        stack.callback(guest.stop)
        yield pair.guest, guest, host


def warm_up(flow: Party, guest: ServingPlace, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command beside the guest's process."""
    conf = guest.home / "warm_up.yaml"
    conf.write_text(yaml.safe_dump({**guest.settings, "home": str(guest.home)}))
    program = [sys.executable, "-m", "fedflow.cli.main", "serving", "warm-up", "-s", "credit"]
    return subprocess.run(
        [*program, "--conf", str(conf), "--server", flow.url, *words],
        check=False, capture_output=True, text=True, timeout=60, env=environment({}),
    )  # fmt: skip


def test_ids_of_a_table_are_warmed_up_and_its_other_columns_stay(
    places: tuple[Party, ServingPlace, ServingPlace],
) -> None:
    flow, guest, host = places
    words = ("--table", "experiment", "users", "--id", "device_id=device", "--json")
    done = warm_up(flow, guest, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"rows": 3, "warmed": 2, "retcodes": {"2113": 1}}
    host.stop()
    try:
        for user in ("u1", "u2"):
            assert guest.infer({"x0": 1.0, "x1": 2}, user=user)["retcode"] == 0
        assert guest.infer({"x0": 1.0, "x1": 2}, user="u3")["retcode"] == 2105
    finally:
        host.start()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--table", "experiment", "users"), "name the columns that are ids"),
        ((), "either a file or"),
        (("--table", "experiment", "users", "--id", "device_id"), "no column 'device_id'"),
        (("--table", "experiment", "nothing", "--id", "device_id"), "nothing"),
        (("--table", "experiment", "users", "--id", "=device"), "not like"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(
    places: tuple[Party, ServingPlace, ServingPlace], words: tuple[str, ...], reason: str
) -> None:
    done = warm_up(*places[:2], *words)
    assert done.returncode != 0
    assert reason in done.stderr, done.stderr
