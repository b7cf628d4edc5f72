"""What is wrong is said clearly: before anything starts, or as a failed job's reason everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from fedflow.base.errors.data import TableExists
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import NotEnoughResources, SubmitRefused
from fedflow.base.errors.parties import NoRoute
from fedflow.domain.site import Role, Site
from tests.e2e.jobs import Json, example, reads
from tests.e2e.servers import (
    GUEST_ID,
    Pair,
    environment,
    free_ports,
    make_certificates,
    refusal_of,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

Change = Callable[[Json, Json], Any]


@pytest.fixture(scope="module")
def servers(quick_servers: Pair) -> Pair:
    return quick_servers


# --- jobs that are refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"job_dsl": ', "the body is not JSON"),
        (b"\xff\xfe{}", "the body is not JSON"),
        (b'{"job_dsl": {}, "job_runtime_conf": NaN}', "the body is not JSON"),
        (b"", "the body is empty"),
        (b"[]", "must be a JSON object"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"job_dsl": {}}', "job_runtime_conf"),
        (b'{"job_dsl": [], "job_runtime_conf": 7}', "must be an object"),
    ],
)
def test_a_body_that_is_no_job_is_refused(pair: Pair, body: bytes, says: str) -> None:
    for party in pair.all:
        answer = party.post("/v1/job/submit", raw=body)
        assert answer["retcode"] in (101, 103)
        assert says in answer["retmsg"]
        assert answer["error"]["hint"]


def module(dsl: Json, conf: Json) -> None:
    dsl["components"]["reader_0"]["module"] = "Raeder"


def cycle(dsl: Json, conf: Json) -> None:
    dsl["components"]["data_transform_0"]["input"]["data"]["data"] = ["evaluation_0.data"]


def no_upstream(dsl: Json, conf: Json) -> None:
    dsl["components"]["intersection_0"]["input"]["data"]["data"] = ["nobody_0.data"]


def no_output(dsl: Json, conf: Json) -> None:
    dsl["components"]["intersection_0"]["input"]["data"]["data"] = ["data_transform_0.dat"]


def no_input(dsl: Json, conf: Json) -> None:
    del dsl["components"]["intersection_0"]["input"]


def learner(**changes: Any) -> Change:
    """Return a change of HeteroLR's parameters."""
    return lambda _, conf: conf["component_parameters"]["common"]["hetero_lr_0"].update(changes)


def of_conf(part: str, **changes: Any) -> Change:
    """Return a change of a top member of the conf."""
    return lambda _, conf: conf[part].update(changes)


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        (module, "$.dsl.components.reader_0.module", "Raeder"),
        (cycle, "$.dsl.components", "cycle: data_transform_0->intersection_0"),
        (no_upstream, "$.dsl.components.intersection_0.input.data.data[0]", "nobody_0"),
        (no_output, "$.dsl.components.intersection_0.input.data.data[0]", '"dat"'),
        (no_input, "$.dsl.components.intersection_0.input.data", "needs data"),
        (learner(learing_rate=0.1), "hetero_lr_0", "unknown field `learing_rate`"),
        (learner(max_iter="many"), "hetero_lr_0.max_iter", "Expected `int`"),
        (learner(max_iter=0), "hetero_lr_0.max_iter", ">= 1"),
        (of_conf("role", hots=[1]), "$.conf.role.hots", "unknown role"),
        (
            of_conf("job_parameters", common={"task_cores": "x"}),
            "$.conf.job_parameters.common.task_cores",
            "Expected `int`",
        ),
    ],
)
def test_a_wrong_job_is_refused_with_the_path_of_the_mistake(
    pair: Pair, change: Change, path: str, says: str
) -> None:
    dsl, conf = example()
    change(dsl, conf)
    before = pair.guest.client.jobs(1).count
    refused = refusal_of(lambda: pair.guest.client.submit(dsl, conf))
    assert isinstance(refused, InvalidJobSpec)
    assert path in refused.message
    assert says in refused.message
    assert pair.guest.client.jobs(1).count == before, "a refused job leaves no trace"


def test_all_mistakes_of_a_job_are_told_at_once(pair: Pair) -> None:
    dsl, conf = example()
    module(dsl, conf)
    no_output(dsl, conf)
    refused = refusal_of(lambda: pair.guest.client.submit(dsl, conf))
    assert "Raeder" in refused.message
    assert '"dat"' in refused.message


def test_a_job_with_a_party_that_has_no_route_is_refused(pair: Pair) -> None:
    dsl, conf = example()
    conf["role"]["host"] = [10001]
    refused = refusal_of(lambda: pair.guest.client.submit(dsl, conf))
    assert isinstance(refused, NoRoute)
    assert "10001" in refused.message


def test_a_job_of_another_initiator_is_refused(pair: Pair) -> None:
    refused = refusal_of(lambda: pair.host.client.submit(*example()))
    assert isinstance(refused, SubmitRefused)
    assert "9999" in refused.message


@pytest.mark.parametrize("role", ["guest", "host"])
def test_a_job_whose_table_a_party_has_not_is_refused_by_its_name(pair: Pair, role: str) -> None:
    dsl, conf = example()
    reads(conf, role, "nowhere")
    refused = refusal_of(lambda: pair.guest.client.submit(dsl, conf))
    assert isinstance(refused, SubmitRefused)
    table = "experiment.nowhere" if role == "guest" else "….…"  # the host's names stay there
    assert f"No table {table} at party {conf['role'][role][0]}" in refused.message


def test_a_job_that_needs_more_cores_than_a_party_has_is_refused(pair: Pair) -> None:
    dsl, conf = example()
    conf["job_parameters"]["common"]["task_cores"] = 500
    refused = refusal_of(lambda: pair.guest.client.submit(dsl, conf))
    assert isinstance(refused, NotEnoughResources)
    assert "500 cores" in refused.message


# --- files and tables -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"id,y,x0\na,1,2\nb,0,3\na,0,3\n", "row 3 repeats the id of row 1"),
        (b"id,y,x0\na,1,2\n\xe4,0,3\n", "row 2, column 'id' is not UTF-8"),
        ("id,y,x0\na,1,2\n".encode("utf-16"), "not UTF-8"),
        (b"id,y,x0\na,1,2\nb,0\n", "row 2 has 2 cells, not 3"),
        (b"id,y,x0\n", "it has no rows"),
        (b"", "it is empty"),
    ],
    ids=["duplicate id", "latin-1", "utf-16", "short row", "no rows", "empty"],
)
def test_a_wrong_file_fails_its_upload_and_leaves_no_table(
    pair: Pair, tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "wrong.csv"
    path.write_bytes(content)
    view = pair.guest.upload(path, "wrong")
    assert (view.status, view.reason.code) == ("failed", "BadData")
    assert says in view.reason.message
    assert not pair.guest.client.table_info("experiment", "wrong").exists
    assert not list((pair.guest.home / "uploads").iterdir()), "the received file is deleted"


def test_an_upload_does_not_replace_a_table_unasked(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "small.csv"
    path.write_text("id,x0\na,1\n")
    refused = refusal_of(lambda: pair.host.upload(path, "breast_hetero_host"))
    assert isinstance(refused, TableExists)
    assert pair.host.client.table_info("experiment", "breast_hetero_host").count == 569


@pytest.mark.parametrize(
    ("role", "content", "component", "code", "says"),
    [
        ("guest", "id,x0\na,1\nb,2\n", "data_transform_0", "BadData", "there is no column 'y'"),
        ("guest", "id,y,x0\na,1,2\nb,0,zwei\n", "data_transform_0", "BadData", "column 'x0'"),
        ("host", "id,x0\n133,1\n273,drei\n", "data_transform_0", "BadData", "first in row 2"),
        ("guest", "id,y,x0\na,1,2\nb,?,3\n", "data_transform_0", "BadData", "valid label"),
        ("guest", "id,y,x0\na,1,2\nb,0,3\n", "intersection_0", "NoCommonIds", "in common"),
    ],
    ids=["no label", "bad number", "bad number at the host", "bad label", "no common ids"],
)
def test_wrong_data_fail_the_job_with_its_sentence_at_home_and_its_code_elsewhere(
    pair: Pair, tmp_path: Path, role: str, content: str, component: str, code: str, says: str
) -> None:
    party = getattr(pair, role)
    path = tmp_path / "bad.csv"
    path.write_text(content)
    assert party.upload(path, "bad", drop=True).succeeded
    dsl, conf = example()
    job_id = pair.guest.client.submit(dsl, reads(conf, role, "bad")).job_id
    assert set(pair.ends(job_id).values()) == {"failed"}
    for other, view in zip(pair.all, pair.views(job_id), strict=True):
        assert view.reason.code == code
        assert view.reason.message.startswith(f"{component} at ")
        if code == "NoCommonIds":  # which both find out
            assert says in view.reason.message
            continue
        site = Site(Role(role), party.place.party_id)
        assert view.reason.site == site.key
        if other is party:
            assert says in view.reason.message
        else:
            there = f"{component} at {site}: {code}; the details stay at {site}"
            assert view.reason.message == there
        assert "zwei" not in view.reason.message, "no cell leaves its party"
    shown = command("job", "query", "-j", job_id, "--server", pair.host.url)
    assert shown.returncode == 0
    assert component in shown.stdout


# --- starts that fail -----------------------------------------------------------------------------


def command(
    *words: str, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `fedflow` with `words`."""
    return subprocess.run(
        [sys.executable, "-m", "fedflow.cli.main", *words],
        check=False, capture_output=True, text=True, timeout=120, env=environment(settings or {}),
    )  # fmt: skip


def refused_start(*words: str, settings: Mapping[str, str] | None = None) -> str:
    """Return what a server says that must not start; no process of it is left."""
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    ports = [] if "--http" in words else ["--http", "127.0.0.1:0"]
    ports += [] if "--grpc" in words else ["--grpc", "127.0.0.1:0"]
    run = command("server", "run", *words, *ports, settings=settings)
    assert run.returncode in (1, 2), run.stderr
    assert "internal error" not in run.stderr
    assert "Traceback" not in run.stderr
    assert {p.pid for p in psutil.Process().children(recursive=True)} <= before
    return run.stderr


@pytest.mark.parametrize("option", ["--http", "--grpc"])
def test_a_port_in_use_is_named(pair: Pair, tmp_path: Path, option: str) -> None:
    address = f"127.0.0.1:{pair.guest.place.http_port}"
    said = refused_start("--home", str(tmp_path), option, address)
    assert f"Cannot listen on {address}: Address already in use" in said


def test_a_home_that_cannot_be_used_is_named(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert "is a file" in refused_start("--home", str(file))
    for home, reason in ((file / "below", "Not a directory"), (Path("/proc/fedflow"), "")):
        said = refused_start("--home", str(home))
        assert f"The home folder {home} cannot be used: {reason}" in said
    said = refused_start("--home", str(pair.guest.home))
    assert "Another fedflow server uses the home folder" in said


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ("fateflow:\n  htpp_port: 1\n", "Setting fateflow.htpp_port: there is no such key"),
        ("fateflow: [\n", "not YAML"),
    ],
)
def test_a_mistake_in_the_conf_is_named(tmp_path: Path, conf: str, says: str) -> None:
    path = tmp_path / "service_conf.yaml"
    path.write_text(conf)
    assert says in refused_start("--home", str(tmp_path / "home"), "--conf", str(path))
    assert not (tmp_path / "home").exists(), "nothing is made before the settings are right"


def test_a_mistake_in_the_environment_is_named(tmp_path: Path) -> None:
    settings = {"FEDFLOW__SCHEDULING__LEASE_SECONDS": "3"}
    said = refused_start("--home", str(tmp_path), settings=settings)
    assert "Setting scheduling.lease_seconds: there is no such key" in said


def test_an_address_that_others_reach_needs_tls_or_insecure(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    said = refused_start("--home", str(tmp_path / "home"), "--grpc", f"0.0.0.0:{port}",
                         "--http", f"0.0.0.0:{port}")  # fmt: skip
    assert "without TLS" in said
    assert "--insecure" in said
    assert not (tmp_path / "home").exists()


def test_wrong_certificates_are_named(tmp_path: Path) -> None:
    tls = make_certificates(tmp_path / "tls", GUEST_ID)
    files = ["--tls-ca", str(tls / "ca.pem"), "--tls-cert", str(tls / "9999.pem")]
    home = ["--home", str(tmp_path / "home")]
    assert "together" in refused_start(*home, "--party", GUEST_ID, *files)
    key = ["--tls-key", str(tls / "9999.key")]
    said = refused_start(*home, "--party", "10000", *files, *key)
    assert "9999" in said
    assert "10000" in said
    other = make_certificates(tmp_path / "other", GUEST_ID)
    said = refused_start(*home, "--party", GUEST_ID, *files, "--tls-key", str(other / "9999.key"))
    assert "tls.key" in said


def test_a_database_that_does_not_answer_is_named(tmp_path: Path) -> None:
    settings = {
        "FEDFLOW__DATABASE__ENGINE": "mysql",
        "FEDFLOW__DATABASE__PORT": str(free_ports(1)[0]),
    }
    said = refused_start("--home", str(tmp_path), settings=settings)
    assert "no database server answers" in said
