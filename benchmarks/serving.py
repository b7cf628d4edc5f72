"""Online answers of a guest and a host with TLS: latency, rate, CPU, memory; beside a bare service.

    .venv/bin/python benchmarks/serving.py [--requests 2000] [--rate 200] [--mlserver PYTHON]

Vertical logistic regression with 100 + 100 features behind DataTransform, binning and FeatureScale,
and 50 trees of depth 5, trained and loaded by two Flow servers. Callers are threads of this process
with kept connections. Arrivals of `--rate` do not wait for answers; latencies count from the
planned arrival. CPU is that of both serving processes. The bare service is scikit-learn behind
waitress: one party, 200 features. `--mlserver` is the Python of an environment with `mlserver` and
`mlserver-sklearn`, which serves the same; for example made by

    python -m venv E; E/bin/pip install mlserver==1.7.1 mlserver-sklearn==1.7.1
"""

from __future__ import annotations

import copy
import http.client
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
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
SERVICE, TREES, CACHED = "bench", "trees", "cached"
MARK = b"hetero_lr_0"  #: in the share of the regression
FITTED = """
import sys
import joblib, numpy as np
from sklearn.linear_model import LogisticRegression
x = np.random.default_rng(1).normal(size=(2000, 200))
joblib.dump(LogisticRegression().fit(x, x[:, 0] > 0), sys.argv[1])
"""
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
    parser.add_argument("--mlserver", help="Python of an environment with mlserver")
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
            took_s = publish(parties, folder)
            figures = measure(guest, host, bare, requests=options.requests, rate=options.rate)
            figures += measure_caches(guest, host, requests=options.requests)
            if options.mlserver is not None:
                figures.append(measure_mlserver(stack, options.mlserver, folder, options.requests))
            figures += measure_models(folder, guest, host)
    figures.append(Figure(what="load and bind, two parties", unit="s", values=took_s, budget=1.0))
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
    trees = [single(number, row, service=TREES) for number, row in enumerate(rows)]
    one_by_one(port, "/federation/v1/inference", trees, 100)
    by_trees = one_by_one(port, "/federation/v1/inference", trees, requests // 2)
    fastest = highest_rate(port, bodies)
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
        Figure(
            what="50 trees of depth 5, one caller: p50", unit="ms",
            values=[statistics.median(by_trees)], budget=3.0,
        ),
        Figure(what="highest rate with p99 < 50 ms", unit="1/s", values=[float(fastest)]),
        *[
            Figure(
                what=f"batch of {size}: p50", unit="ms", values=[statistics.median(found)],
                budget={100: 12.0, 300: 30.0}[size],
            )
            for size, found in batches.items()
        ],
    ]  # fmt: skip


def measure_caches(guest: ServerState, host: ServerState, *, requests: int) -> list[Figure]:
    """Return the figures of caches: a repeated request, and users that come again."""
    generator, port = np.random.default_rng(6), port_of(guest.http)
    row = generator.normal(size=FEATURES).round(5).tolist()
    body, path = single(0, row), "/federation/v1/inference"
    link = http.client.HTTPConnection("127.0.0.1", port)
    hits = []
    for _ in range(requests // 2):
        began = time.perf_counter()
        ask(link, path, body, headers={"caseId": "repeated"})
        hits.append((time.perf_counter() - began) * 1000)
    asked = served_rows(host)
    users = generator.permutation(ROWS).tolist()
    for user in users[:720] + users[:280]:
        ask(link, path, single(user, row, service=CACHED))
    link.close()
    saved = 100 * (1 - (served_rows(host) - asked) / 1_000)
    return [
        Figure(
            what="result cache hit: p50", unit="ms", values=[statistics.median(hits)], budget=1.0
        ),
        Figure(what="calls to the host saved, 28 % of ids come again", unit="%", values=[saved]),
    ]


def measure_models(folder: Path, guest: ServerState, host: ServerState) -> list[Figure]:
    """Return the memory that a further model takes, of 100, at both processes."""
    states = {GUEST: guest, HOST: host}
    before = {party: memory_of([state.pid]).rss for party, state in states.items()}
    for party, state in states.items():
        (share,) = [json.loads(one) for one in stored_shares(folder, party) if MARK in one][:1]
        for number in range(100):
            again = {**share, "model_version": f"copy-{number}", "digest": f"copy-{number}"}
            load_id = f"copy-{number}"
            admin(state, "POST", "loads", {"load_id": load_id, "share": again})
            admin(state, "POST", f"loads/{load_id}/commit", {})
    more = [(memory_of([state.pid]).rss - before[party]) / 100 for party, state in states.items()]
    return [Figure(what="each of 100 models more, RSS", unit="MiB", values=more, budget=1.0)]


def measure_mlserver(stack: ExitStack, python: str, folder: Path, requests: int) -> Figure:
    """Return the latency of the same model in MLServer: one party, REST."""
    home = folder / "mlserver"
    home.mkdir()
    subprocess.run([python, "-c", FITTED, str(home / "model.joblib")], check=True)
    (port, grpc_port, metrics) = free_ports(3)
    settings = {
        "debug": False, "host": "127.0.0.1", "http_port": port, "grpc_port": grpc_port,
        "metrics_port": metrics, "parallel_workers": 0,
    }  # fmt: skip
    model = {
        "name": "lr", "implementation": "mlserver_sklearn.SKLearnModel",
        "parameters": {"uri": "./model.joblib", "version": "v1"},
    }  # fmt: skip
    (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    (home / "model-settings.json").write_text(json.dumps(model), encoding="utf-8")
    program = str(Path(python).parent / "mlserver")
    with (folder / "mlserver.log").open("wb") as log:
        process = subprocess.Popen([program, "start", str(home)], stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.kill)
    rows = np.random.default_rng(5).normal(size=(500, 2 * FEATURES)).round(5).tolist()
    bodies = [
        json.dumps(
            {
                "inputs": [
                    {"name": "x", "shape": [1, len(row)], "datatype": "FP64", "data": [row]}
                ],
                "outputs": [{"name": "predict_proba"}],
            }
        ).encode()
        for row in rows
    ]
    path = "/v2/models/lr/infer"
    wait(lambda: one_by_one(port, path, bodies, 1), seconds=60)
    one_by_one(port, path, bodies, 200)
    found = one_by_one(port, path, bodies, requests)
    return Figure(what="MLServer, one caller: p50", unit="ms", values=[statistics.median(found)])


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


def highest_rate(port: int, bodies: Sequence[bytes]) -> int:
    """Return the highest rate, in steps of 50 per second, with 99 of 100 answers within 50 ms."""
    good = 0
    for rate in range(200, 1_501, 50):
        if percentile(at_rate(port, bodies, 4 * rate, rate), 99) >= 50:
            break
        good = rate
    return good


def served_rows(state: ServerState) -> int:
    """Return how many rows a host gave parts of."""
    link = http.client.HTTPConnection("127.0.0.1", port_of(state.admin or ""))
    link.request("GET", "/metrics")
    text = link.getresponse().read().decode()
    link.close()
    rows = [one for one in text.splitlines() if one.startswith("fedflow_serving_served_rows_total")]
    return sum(int(float(one.rpartition(" ")[2])) for one in rows)


def admin(state: ServerState, method: str, path: str, body: object) -> Any:
    """Return what an admin port answers."""
    link = http.client.HTTPConnection("127.0.0.1", port_of(state.admin or ""))
    link.request(
        method, f"/admin/v1/{path}", json.dumps(body), {"Content-Type": "application/json"}
    )
    answer = json.loads(link.getresponse().read())
    link.close()
    if answer["retcode"]:
        raise RuntimeError(f"{path}: {answer}")
    return answer.get("data")


def stored_shares(folder: Path, party: str) -> list[bytes]:
    """Return the shares that a process has loaded."""
    path = folder / f"serving-{party}" / "serving.sqlite"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as link:
        return [row[0] for row in link.execute("SELECT share FROM load WHERE state = 'loaded'")]


def ask(
    link: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str] | None = None
) -> None:
    link.request("POST", path, body, {"Content-Type": "application/json", **(headers or {})})
    answer = json.loads(link.getresponse().read())
    if answer.get("retcode"):
        raise RuntimeError(f"no score: {answer}")


def single(number: int, row: Sequence[float], service: str = SERVICE) -> bytes:
    """Return the body of a request."""
    body = {"featureData": named(row), "sendToRemoteFeatureData": {"id": str(number % ROWS)}}
    return json.dumps({"head": {"serviceId": service}, "body": body}).encode()


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
                "access_log": False, "caches": {"partners": {"enabled": True}}, **more,
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


def wait(look: Callable[[], object], seconds: int = 20) -> None:
    for _ in range(10 * seconds):
        try:
            look()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the bare service does not answer")


def publish(parties: Parties, folder: Path) -> list[float]:
    """Train, deploy, load and bind the models; return the seconds of load and bind."""
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
    took_s = []
    steps = ["reader_0", "data_transform_0"]
    uncached = {"cache_partners": False}
    for name, kept, options in (
        (SERVICE, [*steps, "hetero_feature_binning_0", "scale_0", "hetero_lr_0"], uncached),
        (CACHED, [*steps, "hetero_feature_binning_0", "scale_0", "hetero_lr_0"], None),
        (TREES, [*steps, "trees_0"], uncached),
    ):
        made = client.models.deploy(sent.model_id, sent.model_version, components=kept)
        began = time.perf_counter()
        client.models.load(made.model_version)
        client.models.bind(made.model_version, name, options=options)
        took_s.append(time.perf_counter() - began)
    return took_s


def job() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of the training."""
    dsl = json.loads((EXAMPLE / "dsl.json").read_text(encoding="utf-8"))
    conf_ = copy.deepcopy(json.loads((EXAMPLE / "conf.json").read_text(encoding="utf-8")))
    components = dsl["components"]
    for name in ("intersection_0", "evaluation_0"):
        components.pop(name, None)
        conf_["component_parameters"]["common"].pop(name, None)
    components["hetero_feature_binning_0"] = {
        "module": "HeteroFeatureBinning",
        "input": {"data": {"data": ["data_transform_0.data"]}},
        "output": {"data": ["data"], "model": ["model"]},
    }
    components["scale_0"] = {
        "module": "FeatureScale",
        "input": {"data": {"data": ["hetero_feature_binning_0.data"]}},
        "output": {"data": ["data"], "model": ["model"]},
    }
    components["trees_0"] = {
        "module": "HeteroSecureBoost",
        "input": {"data": {"train_data": ["data_transform_0.data"]}},
        "output": {"data": ["data"], "model": ["model"]},
    }
    conf_["component_parameters"]["common"]["trees_0"] = {
        "task_type": "classification", "objective_param": {"objective": "cross_entropy"},
        "num_trees": 50, "bin_num": 16, "tree_param": {"max_depth": 5},
        "encrypt_param": {"method": "OU", "key_length": 2048},
    }  # fmt: skip
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
