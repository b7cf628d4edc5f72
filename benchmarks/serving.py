"""Online answers of a guest and a host with TLS: latency, rate, CPU, memory; beside a bare service.

    .venv/bin/python benchmarks/serving.py [--requests 2000] [--rate 200] [--json]

Vertical logistic regression with 100 + 100 features behind DataTransform and FeatureScale, trained
and loaded by two Flow servers. Callers are threads of this process with kept connections. Arrivals
of `--rate` do not wait for answers; latencies count from the planned arrival. CPU is that of both
serving processes. The bare service is scikit-learn behind waitress: one party, 200 features.
"""

from __future__ import annotations

import copy
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from figures import Figure, Machine, arguments, show
from parties import Parties, cpu_times, memory_of, two_parties

from fedflow.cli.demo_servers import GUEST, HOST, free_ports
from fedflow.cli.server_process import ServerState, end, spawn, wait_until_up
from fedflow.cli.tls import create_files

FEATURES, ROWS = 100, 2_000
SERVICE = "bench"
EXAMPLE = Path(__file__).parent.parent / "examples" / "hetero_lr"
BARE = """
import json, sys
import numpy as np
from sklearn.linear_model import LogisticRegression
from waitress import serve
x = np.random.default_rng(1).normal(size=(2000, 200))
model = LogisticRegression().fit(x, x[:, 0] > 0)
def app(environ, start):
    body = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    row = np.array([list(body.values())])
    text = json.dumps({"score": float(model.predict_proba(row)[0, 1])}).encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text]
serve(app, host="127.0.0.1", port=int(sys.argv[1]), threads=8, _quiet=True)
"""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--rate", type=int, default=200, help="requests per second")
    options = parser.parse_args()
    machine = Machine()
    with tempfile.TemporaryDirectory(prefix="fedflow-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        bare = stack.enter_context(bare_service())
        idle, guest, host = stack.enter_context(serving(folder))
        confs = {
            party: conf(folder / f"{party}.yaml", {"servings": {"hosts": [state.admin]}})
            for party, state in ((GUEST, guest), (HOST, host))
        }
        with two_parties(confs=confs) as parties:
            publish(parties, folder)
        figures = measure(guest, host, bare, requests=options.requests, rate=options.rate)
    figures.append(Figure(what="a process, idle, RSS", unit="MiB", values=idle, budget=120))
    title = f"LR of {FEATURES} + {FEATURES} features, guest and one host with TLS"
    show(title, figures, as_json=options.json, machine=machine)


def measure(
    guest: ServerState, host: ServerState, bare: int, *, requests: int, rate: int
) -> list[Figure]:
    """Return the figures of all kinds of callers."""
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(500, FEATURES)).round(5).tolist()
    port = port_of(guest.http)
    bodies = [single(number, row) for number, row in enumerate(rows)]
    more = generator.normal(size=(500, FEATURES)).round(5).tolist()
    plain = [
        json.dumps(dict(enumerate([*row, *other]))).encode()
        for row, other in zip(rows, more, strict=True)
    ]
    one_by_one(port, "/federation/v1/inference", bodies, 200)  # warm
    ours = one_by_one(port, "/federation/v1/inference", bodies, requests)
    one_by_one(bare, "/", plain, 200)
    theirs = one_by_one(bare, "/", plain, requests)
    pids = [guest.pid, host.pid]
    before = cpu_of(pids)
    open_ms = at_rate(port, bodies, requests, rate)
    cpu_ms = (cpu_of(pids) - before) * 1000 / requests
    batches = {
        size: one_by_one(port, "/federation/v1/batchInference", [batch(rows, size)], 50)
        for size in (100, 300)
    }
    p50 = statistics.median(ours)
    return [
        Figure(what="one caller: p50", unit="ms", values=[p50], budget=1.8),
        Figure(what="one caller: p99", unit="ms", values=[percentile(ours, 99)]),
        Figure(what="bare service, one caller: p50", unit="ms", values=[statistics.median(theirs)]),
        Figure(
            what="cost of federation", unit="times", values=[p50 / statistics.median(theirs)],
            budget=4.0,
        ),
        Figure(what=f"{rate}/s: p50", unit="ms", values=[statistics.median(open_ms)], budget=3.0),
        Figure(what=f"{rate}/s: p99", unit="ms", values=[percentile(open_ms, 99)], budget=15.0),
        Figure(what="CPU per request, both parties", unit="ms", values=[cpu_ms], budget=2.0),
        *[
            Figure(
                what=f"batch of {size}: p50", unit="ms", values=[statistics.median(found)],
                budget={100: 12.0, 300: 30.0}[size],
            )
            for size, found in batches.items()
        ],
    ]  # fmt: skip


# --- callers --------------------------------------------------------------------------------------


def one_by_one(port: int, path: str, bodies: Sequence[bytes], count: int) -> list[float]:
    """Return milliseconds of each of `count` requests of one caller."""
    link, found = http.client.HTTPConnection("127.0.0.1", port), []
    for number in range(count):
        began = time.perf_counter()
        ask(link, path, bodies[number % len(bodies)])
        found.append((time.perf_counter() - began) * 1000)
    link.close()
    return found


def at_rate(port: int, bodies: Sequence[bytes], count: int, rate: int) -> list[float]:
    """Return milliseconds from the planned arrival of each request to its answer."""
    links, start_s = threading.local(), time.perf_counter() + 0.1

    def arrive(number: int) -> float:
        if not hasattr(links, "own"):
            links.own = http.client.HTTPConnection("127.0.0.1", port)
        planned_s = start_s + number / rate
        time.sleep(max(0.0, planned_s - time.perf_counter()))
        ask(links.own, "/federation/v1/inference", bodies[number % len(bodies)])
        return (time.perf_counter() - planned_s) * 1000

    with ThreadPoolExecutor(32) as pool:
        return list(pool.map(arrive, range(count)))


def ask(link: http.client.HTTPConnection, path: str, body: bytes) -> None:
    link.request("POST", path, body, {"Content-Type": "application/json"})
    answer = json.loads(link.getresponse().read())
    if answer.get("retcode"):
        raise RuntimeError(f"no score: {answer}")


def single(number: int, row: Sequence[float]) -> bytes:
    """Return the body of a request."""
    body = {"featureData": named(row), "sendToRemoteFeatureData": {"id": str(number % ROWS)}}
    return json.dumps({"head": {"serviceId": SERVICE}, "body": body}).encode()


def batch(rows: Sequence[Sequence[float]], size: int) -> bytes:
    items = [
        {
            "index": number, "featureData": named(rows[number]),
            "sendToRemoteFeatureData": {"id": str(number)},
        }
        for number in range(size)
    ]  # fmt: skip
    return json.dumps({"head": {"serviceId": SERVICE}, "body": {"batchDataList": items}}).encode()


def named(row: Sequence[float]) -> dict[str, float]:
    return {f"x{number}": value for number, value in enumerate(row)}


def percentile(values: Sequence[float], share: int) -> float:
    return float(np.percentile(values, share))


def cpu_of(pids: Sequence[int]) -> float:
    return sum(cpu_times(pid)[0] for pid in pids)


# --- what is measured -----------------------------------------------------------------------------


@contextmanager
def serving(folder: Path) -> Iterator[tuple[list[float], ServerState, ServerState]]:
    """Start both serving processes; yields their memory at rest, and where they are."""
    files = {one.party_id: one for one in create_files(folder / "tls", (GUEST, HOST))}
    write(folder / "host.csv", HOST)
    with ExitStack() as stack:
        states: dict[str, ServerState] = {}
        for party, more in (
            (HOST, {"features": {"source": "table",
                                 "options": {"path": str(folder / "host.csv"), "ids": ["id"]}}}),
            (GUEST, {}),
        ):  # fmt: skip
            own = files[party]
            tls = {"ca": str(own.ca), "certificate": str(own.certificate), "key": str(own.key)}
            partners: dict[str, Any] = {"port": 0, "tls": tls, "allowed": [GUEST]}
            settings: dict[str, Any] = {
                "party_id": party, "home": str(folder / f"serving-{party}"),
                "callers": {"port": 0}, "admin": {"port": 0}, "partners": partners,
                "access_log": False, **more,
            }  # fmt: skip
            if party == GUEST:
                settings["routes"] = {HOST: states[HOST].grpc}
            home = Path(settings["home"])
            words = ["--conf", str(conf(folder / f"serving-{party}.yaml", settings))]
            process = spawn(home, words, group="serving")
            stack.callback(end, process)
            states[party] = wait_until_up(process, home, log_offset=0)
        idle = [memory_of([state.pid]).rss for state in states.values()]
        yield idle, states[GUEST], states[HOST]


@contextmanager
def bare_service() -> Iterator[int]:
    """Start the service that no partner takes part in; yields its port."""
    (port,) = free_ports(1)
    process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    try:
        wait(
            lambda: one_by_one(port, "/", [json.dumps(dict.fromkeys(range(200), 0.0)).encode()], 1)
        )
        yield port
    finally:
        process.kill()
        process.wait()


def wait(look: Callable[[], object]) -> None:
    for _ in range(200):
        try:
            look()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the bare service does not answer")


def publish(parties: Parties, folder: Path) -> None:
    """Train, deploy, load and bind the model."""
    for party, role in ((parties.guest, GUEST), (parties.host, HOST)):
        name = "guest" if role == GUEST else "host"
        path = folder / f"{name}.csv"
        write(path, role)
        sent = party.client.upload(path, namespace="experiment", table_name=f"wide_{name}")
        if not party.client.wait(sent.job_id, timeout_s=120).succeeded:
            raise RuntimeError("the upload failed")
    client = parties.guest.client
    sent = client.submit(*job())
    parties.wait(sent.job_id)
    kept = ["reader_0", "data_transform_0", "scale_0", "hetero_lr_0"]
    made = client.models.deploy(sent.model_id, sent.model_version, components=kept)
    client.models.load(made.model_version)
    client.models.bind(made.model_version, SERVICE)


def job() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of the training."""
    dsl = json.loads((EXAMPLE / "dsl.json").read_text(encoding="utf-8"))
    conf_ = copy.deepcopy(json.loads((EXAMPLE / "conf.json").read_text(encoding="utf-8")))
    components = dsl["components"]
    for name in ("intersection_0", "evaluation_0"):
        components.pop(name, None)
        conf_["component_parameters"]["common"].pop(name, None)
    components["scale_0"] = {
        "module": "FeatureScale",
        "input": {"data": {"data": ["data_transform_0.data"]}},
        "output": {"data": ["data"], "model": ["model"]},
    }
    components["hetero_lr_0"]["input"]["data"] = {"train_data": ["scale_0.data"]}
    learner = conf_["component_parameters"]["common"]["hetero_lr_0"]
    learner.update(max_iter=2, batch_size=-1, encrypt_param={"key_length": 1024})
    for role in ("guest", "host"):
        table = {"name": f"wide_{role}", "namespace": "experiment"}
        conf_["component_parameters"]["role"][role]["0"]["reader_0"]["table"] = table
    return dsl, conf_


def write(path: Path, party: str) -> None:
    """Write a party's rows."""
    generator = np.random.default_rng(int(party))
    values = generator.normal(size=(ROWS, FEATURES)).round(5)
    names = ",".join(named(values[0]))
    label = ["y,"] if party == GUEST else [""]
    with path.open("w", encoding="ascii") as file:
        file.write(f"id,{label[0]}{names}\n")
        for number, row in enumerate(values.tolist()):
            y = f"{int(row[0] > 0)}," if party == GUEST else ""
            file.write(f"{number},{y}{','.join(map(str, row))}\n")


def conf(path: Path, values: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


if __name__ == "__main__":
    main()
