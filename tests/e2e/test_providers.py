"""Providers at real servers: registered, run in jobs, misbehaving, deleted."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from fedflow.base.errors.error import FedflowError
from fedflow.cli.main import cli
from tests.e2e.jobs import Json, upload_data
from tests.e2e.servers import (
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    QUICK,
    ROOT,
    Pair,
    two_parties,
    wait_for,
)
from tests.integration.test_provider_processes import folder, own_interpreter

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TABLES = {"guest": "breast_hetero_guest", "host": "breast_hetero_host"}

ROGUE = """
import os, subprocess, sys, time
from fedflow.sdk import Context, Outputs, component

@component("Rogue", roles=("guest",), needs_input=False)
def rogue(ctx: Context, *, how: str) -> Outputs:
    "Misbehave as told."
    if how == "segfault":
        os.kill(os.getpid(), 11)
    if how == "exit":
        os._exit(0)
    if how == "hang":
        time.sleep(600)
    if how == "binary":
        for _ in range(200):
            os.write(1, bytes(range(256)) * 256)
    if how == "rubbish":
        return {"no": "outputs"}
    if how == "daemon":
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        child = subprocess.Popen(command, start_new_session=True)
        (ctx.work_dir / "daemon").write_text(str(child.pid))
    if how == "memory":
        blocks = []
        while True:
            blocks.append(bytearray(16 << 20))
    return Outputs(summary={"prefix": sys.prefix})
"""

SIGNING = """
from fedflow.sdk import Context, Outputs, Role, component

@component("Signing", roles=("guest", "host"), needs_input=False)
def signing(ctx: Context) -> Outputs:
    "Let the guest sign, and the host verify."
    guest, host = ctx.only(Role.GUEST), ctx.only(Role.HOST)
    if ctx.site == guest:
        ctx.federation.send("signed", ctx.identity.sign(b"keys"), to=host)
        return Outputs()
    signature = ctx.federation.recv("signed", from_=guest)
    claims = [(guest, b"keys"), (guest, b"others"), (host, b"keys")]
    verified = ctx.identity.verify([(site, content, signature) for site, content in claims])
    return Outputs(summary={"verified": verified})
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that both servers may register providers from."""
    root = tmp_path_factory.mktemp("p")
    shutil.copytree(ROOT / "examples" / "provider", root / "examples")
    python = own_interpreter(root / "venv")
    folder(root / "rogue", ROGUE, name="rogue", components="lab:rogue", python=str(python))
    folder(root / "signing", SIGNING, name="signing", components="lab:signing")
    return root


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Iterator[Pair]:
    settings = {
        **QUICK,
        "FEDFLOW__SCHEDULING__CALL_TIMEOUT_S": "60",  # each check of parameters starts a process
        "FEDFLOW__SCHEDULING__CREATE_TIMEOUT_S": "60",
        "FEDFLOW__PROVIDER__ALLOWED_FOLDERS": json.dumps([str(place)]),
        "FEDFLOW__EXECUTOR__MEMORY_MIB": "512",
    }
    with two_parties(tmp_path_factory.mktemp("s"), settings=settings) as pair:
        upload_data(pair)
        for party in pair.all:
            party.client.providers.register(str(place / "examples"))
            party.client.providers.register(str(place / "signing"))
        pair.guest.client.providers.register(str(place / "rogue"))
        yield pair
        pair.wait_idle()


def job(**parameters: Json) -> tuple[Json, Json]:
    """Return a job of the example provider over the example data."""
    steps = ("reader_0", "data_transform_0", "clip_0", "compare_0")
    modules = dict(zip(steps, ("Reader", "DataTransform", "ClipValues", "CompareMeans")))
    components: Json = {}
    for upstream, name in zip((None, *steps), steps):
        components[name] = {"module": modules[name], "output": {"data": ["data"]}}
        if upstream:
            components[name]["input"] = {"data": {"data": [f"{upstream}.data"]}}
    dsl = {"components": components}
    by_role = {
        role: {"0": {"reader_0": {"table": {"name": name, "namespace": "experiment"}}}}
        for role, name in TABLES.items()
    }
    by_role["guest"]["0"]["data_transform_0"] = {"with_label": True, "label_name": "y"}
    return dsl, {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": GUEST_ID},
        "role": {"guest": [GUEST_ID], "host": [HOST_ID]},
        "component_parameters": {"common": parameters, "role": by_role},
    }


def rogue(how: str, **common: Any) -> tuple[Json, Json]:
    """Return a job of the guest alone."""
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": GUEST_ID},
        "role": {"guest": [GUEST_ID]},
        "job_parameters": {"common": common},
        "component_parameters": {"common": {"rogue_0": {"how": how}}},
    }
    return {"components": {"rogue_0": {"module": "Rogue", "provider": "rogue@1.0"}}}, conf


def zygotes_of(pair: Pair) -> list[int]:
    """Return the pids of the guest's zygotes."""
    found = []
    for process in pair.guest.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker that ends just now
            if "fedflow.worker.zygote" in process.cmdline():
                found.append(process.pid)
    return found


def run(pair: Pair, dsl: Json, conf: Json) -> str:
    job_id = pair.guest.client.submit(dsl, conf).job_id
    assert set(pair.ends(job_id).values()) == {"success"}, pair.guest.client.job(job_id)
    return job_id


def test_a_task_signs_by_the_certificate_of_its_party_and_another_party_verifies(
    pair: Pair,
) -> None:
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": GUEST_ID},
        "role": {"guest": [GUEST_ID], "host": [HOST_ID]},
    }
    dsl = {"components": {"signing_0": {"module": "Signing", "provider": "signing@1.0"}}}
    job_id = run(pair, dsl, conf)
    found = pair.host.client.summary(job_id, "signing_0", site=HOST)
    assert found == {"verified": [True, False, False]}


def test_a_job_runs_the_components_of_a_provider_at_both_parties(pair: Pair) -> None:
    dsl, conf = job(clip_0={"upper": 0.0})
    dsl["provider"] = "examples@1.0"
    job_id = run(pair, dsl, conf)
    client = pair.guest.client
    assert client.summary(job_id, "clip_0", site=GUEST) == {"columns": 10, "rows": 569}
    means = client.summary(job_id, "compare_0", site=GUEST)["means"]
    assert set(means) == {str(GUEST), str(HOST)}
    assert all(mean < 0 for mean in means.values())
    modules = {m.module for m in client.components()}
    assert {"ClipValues", "CompareMeans", "Rogue", "HeteroLR"} <= modules


def test_a_trainable_component_trains_and_predicts_at_both_parties(pair: Pair) -> None:
    dsl, conf = job(ridge_0={"epochs": 2, "measure_every": 2, "key_bits": 1024})
    conf["role"]["arbiter"] = [HOST_ID]
    dsl["components"]["ridge_0"] = {
        "module": "RidgeRegression",
        "input": {"data": {"train_data": ["compare_0.data"]}},
        "output": {"data": ["data"], "model": ["model"]},
    }
    job_id = run(pair, dsl, conf)
    client = pair.guest.client
    summary = client.summary(job_id, "ridge_0", site=GUEST)
    assert 0 < summary["train"]["mse"] < 1
    metrics = {(m.namespace, m.name): m for m in client.metrics(job_id, "ridge_0", site=GUEST)}
    assert metrics["train", "loss"].points[0][1] == summary["train"]["mse"]

    model_id = f"arbiter-{HOST_ID}#guest-{GUEST_ID}#host-{HOST_ID}#model"
    steps = ["reader_0", "data_transform_0", "clip_0", "compare_0", "ridge_0"]
    version = client.models.deploy(model_id, job_id, components=steps).model_version
    tables = {role: ("experiment", name) for role, name in TABLES.items()}
    predicted = client.models.predict(model_id, version, tables).job_id
    assert set(pair.ends(predicted).values()) == {"success"}, client.job(predicted)
    (table,) = client.output_data(predicted, "ridge_0", site=GUEST)
    assert {row[-1] for row in table.rows} == {"predict"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parameters": {"clip_0": {"uper": 1}, "compare_0": {"digits": 99}}}, ("uper", "digits")),
        ({"provider": "examples@9.9"}, ("no version 9.9",)),
        ({"roles": {"guest": [GUEST_ID]}}, ("a host to compare with is needed",)),
    ],
)
def test_what_a_provider_refuses_is_told_at_the_submit(
    pair: Pair, change: Json, words: tuple[str, ...]
) -> None:
    dsl, conf = job(**change.get("parameters", {}))
    if "provider" in change:
        dsl["components"]["clip_0"]["provider"] = change["provider"]
    if "roles" in change:
        conf["role"] = change["roles"]
        del conf["component_parameters"]["role"]["host"]
    at_host = pair.host.client.jobs().count
    with pytest.raises(FedflowError) as caught:
        pair.guest.client.submit(dsl, conf)
    for word in words:
        assert word in caught.value.message
    assert pair.host.client.jobs().count == at_host


def test_a_party_that_lacks_the_provider_refuses_the_job(pair: Pair, place: Path) -> None:
    pair.host.client.providers.delete("examples", "1.0")
    try:
        with pytest.raises(FedflowError, match=r"10000.* no module .?ClipValues"):
            pair.guest.client.submit(*job())
    finally:
        pair.host.client.providers.register(str(place / "examples"))


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("segfault", "failed", "signal"),
        ("exit", "failed", ""),
        ("rubbish", "failed", "returned a dict"),
        ("memory", "failed", "memory"),
        ("hang", "timeout", ""),
        ("binary", "success", ""),
        ("daemon", "success", ""),
    ],
)
def test_a_component_that_misbehaves_hurts_its_own_task_only(
    pair: Pair, how: str, status: str, words: str
) -> None:
    zygotes = zygotes_of(pair)
    client = pair.guest.client
    job_id = client.submit(*rogue(how, timeout=3 if how == "hang" else 60)).job_id
    assert client.wait(job_id, timeout_s=120).status == status
    if words:
        told = json.dumps(pair.guest.post("/v1/job/task/query", {"job_id": job_id}))
        assert words in told.lower()
    if how == "daemon":
        (file,) = (pair.guest.home / "jobs" / job_id).glob("*/daemon")
        wait_for(lambda: not psutil.pid_exists(int(file.read_text())), "the daemon to end")
    assert zygotes == zygotes_of(pair)
    assert pair.guest.readiness()
    well = client.submit(*rogue("well")).job_id
    assert client.wait(well, timeout_s=120).succeeded
    assert "venv" in client.summary(well, "rogue_0", site=GUEST)["prefix"]


def test_the_commands_add_list_and_delete_providers(pair: Pair, place: Path) -> None:
    def fedflow(*words: object, code: int = 0) -> str:
        arguments = ["provider", *map(str, words), "--server", pair.guest.url]
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == code, result.output
        return result.output

    assert "rogue" in fedflow("list")
    assert "rogue@1.0 was deleted" in fedflow("delete", "rogue", "1.0")
    assert "rogue" not in fedflow("list")
    assert "no provider rogue@1.0" in fedflow("delete", "rogue", "1.0", code=1)
    assert "rogue@1.0 was added with Rogue" in fedflow("register", place / "rogue")
    assert "rogue@1.0 was read again, with Rogue" in fedflow("register", place / "rogue")
    assert "provider.allowed_folders" in fedflow("register", ROOT / "examples" / "provider", code=1)


def test_registrations_survive_a_restart(pair: Pair) -> None:
    pair.guest.restart(after_s=0)
    pair.wait_connected()
    job_id = pair.guest.client.submit(*rogue("well")).job_id
    assert pair.guest.client.wait(job_id, timeout_s=120).succeeded
