"""Vertical boosted trees between two parties with TLS: whole jobs, beside the least arithmetic.

    .venv/bin/python benchmarks/boosting.py [--only breast,credit] [--runs 1] [--plain] [--json]
        [--link 100/10] [--predict]

Each line is a job: data of a shape (rows, columns of guest and host), bins, depth, trees, key.
`breast` is FATE's example data, with Intersection and Evaluation; other data are made by a seed,
are aligned, and only their HeteroSecureBoost counts. CPU is that of both servers, both zygotes and
all executors. A is the least arithmetic of these trees with the costs of encryption, product and
decryption that the same process measures just before and after:

    A = n e + n F m (1 + (D-1)/2) / p + C (s+1) m + (C/k) (2 e + d) per tree

n rows, F host columns, B bins, D depth, C = F (B-1) 2^(D-1) candidates of computed nodes, s bits of
a slot, k candidates per ciphertext, p columns per pass. Budget: CPU <= 1.3 A + 0.3 s, and wall at
most 0.6 of that CPU.

--plain also trains xgboost on the joined columns in the clear: as many trees, bins and levels, the
same cores, the median of five runs. The ratio is that of the component's wall, start of its
processes included, to xgboost's. SecretFlow gives 17 to 80 for its own.

--link 100/10 puts a link of 100 Mbit/s and 10 ms (one way) between the parties, and counts bytes.

--predict trains the line's trees on its first 2,000 rows, and measures a prediction of all rows.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from figures import Figure, Machine, arguments, show
from main_job import upload as upload_breast
from numpy.typing import NDArray
from parties import Parties, PeakMemory, two_parties
from relay import Link

from fedflow.components.boosting.sums import SlotLayout
from fedflow.sdk.crypto.schemes import Cryptosystem, generate_key

Floats = NDArray[Any]
ROLES = ("guest", "host")
EXAMPLE = Path(__file__).parent.parent / "examples" / "hetero_secureboost"
LEARNER = "hetero_secureboost_0"
TRAINED_ROWS = 2_000  #: of `--predict`
LEARNER_WALL = "wall of HeteroSecureBoost"
PLAIN_RUNS = 5


@dataclass(frozen=True, kw_only=True)
class Line:
    """One job."""

    name: str
    rows: int
    guest: int
    host: int
    trees: int
    bins: int = 32
    depth: int = 3
    bits: int = 1024
    scheme: str = "paillier"
    more: tuple[tuple[str, Any], ...] = ()  #: further parameters
    wall_s: float | None = None  #: budget of the issue for both parties together

    @property
    def is_breast(self) -> bool:
        return self.name.startswith("breast")


LINES = (
    Line(name="breast", rows=569, guest=10, host=20, trees=3, wall_s=2.5),
    Line(name="breast50", rows=569, guest=10, host=20, trees=50, wall_s=17.0),
    Line(name="credit", rows=30_000, guest=10, host=13, trees=5, wall_s=11.5),
    Line(name="bank", rows=28_935, guest=8, host=8, trees=5, bins=10, depth=5),
    Line(name="wide", rows=110_000, guest=13, host=30, trees=1, depth=4, wall_s=11.0),
    Line(
        name="wide_goss", rows=110_000, guest=13, host=30, trees=1, depth=4,
        more=(("run_goss", True),), wall_s=4.5,
    ),
    Line(name="square", rows=100_000, guest=10, host=10, trees=1, wall_s=7.0),
    Line(name="square5", rows=100_000, guest=10, host=10, trees=1, depth=5, wall_s=8.0),
    Line(
        name="bank_ou", rows=28_935, guest=8, host=8, trees=5, bins=10, depth=5,
        bits=2048, scheme="ou", wall_s=10.0,
    ),
    Line(
        name="wide_ou", rows=110_000, guest=13, host=30, trees=1, depth=4,
        bits=2048, scheme="ou", wall_s=11.0,
    ),
    Line(name="breast2048", rows=569, guest=10, host=20, trees=3, bits=2048),
    Line(name="credit2048", rows=30_000, guest=10, host=13, trees=5, bits=2048),
    Line(
        name="wide_mix", rows=110_000, guest=13, host=30, trees=2, depth=4,
        more=(("boosting_strategy", "mix"),), wall_s=12.0,
    ),
    Line(
        name="wide_layered", rows=110_000, guest=13, host=30, trees=1, depth=4,
        more=(("boosting_strategy", "layered"), ("host_depth", 2), ("guest_depth", 2)),
    ),
    Line(name="square10", rows=100_000, guest=10, host=10, trees=10, wall_s=70.0),
    Line(name="bank50", rows=28_935, guest=8, host=8, trees=50, bins=10, depth=5,
         bits=2048, scheme="ou", wall_s=100.0),
    Line(
        name="million", rows=1_000_000, guest=10, host=10, trees=3, depth=5,
        bits=2048, scheme="ou",
    ),
    Line(name="predict", rows=100_000, guest=10, host=10, trees=50, depth=5, wall_s=3.0),
)  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["breast", "credit"])
    parser.add_argument("--cores", type=int, default=2, help="of each task")
    parser.add_argument("--link", type=Link.parse, help="Mbit/s and ms of one way, such as 100/10")
    parser.add_argument("--predict", action="store_true", help="train little, predict all rows")
    parser.add_argument("--plain", action="store_true", help="also xgboost in the clear: the ratio")
    options = parser.parse_args()
    if options.plain and importlib.util.find_spec("xgboost") is None:
        parser.error("--plain: xgboost is not installed: pip install --editable '.[accuracy]'")
    for line in LINES:
        if line.name not in options.only:
            continue
        machine = Machine()
        with two_parties(options.link) as parties, tempfile.TemporaryDirectory() as folder:
            upload = upload_breast if line.is_breast else uploader(line, Path(folder))
            upload(parties)
            if options.predict:
                figures = measure_predictions(parties, line, runs=options.runs, cores=options.cores)
            else:
                figures = measure(parties, line, runs=options.runs, cores=options.cores)
        if options.plain:
            figures += ratio(line, figures, cores=options.cores)
        title = f"{line.name}: {line.rows} x {line.guest} + {line.host}, {line.bins} bins, depth"
        title += f" {line.depth}, {line.trees} trees, {line.scheme} {line.bits}"
        show(title, figures, as_json=options.json, machine=machine)


def measure(parties: Parties, line: Line, *, runs: int, cores: int) -> list[Figure]:
    """Run the job and return its figures."""
    dsl, conf = job(line, cores=cores)
    least_s = [least_arithmetic_s(line)]
    wall_s, cpu_s, learner_s, pss_mib, carried_mib = [], [], [], [], []
    of_parties: dict[str, list[float]] = {role: [] for role in ROLES}
    for _ in range(runs):
        parties.settle()
        before, began_ms, carried = parties.cpu(), time.time() * 1000, parties.carried
        with (
            PeakMemory(parties, pause_s=0.25) as sampler,
            PeakMemory(parties.guest, pause_s=0.25) as guest,
            PeakMemory(parties.host, pause_s=0.25) as host,
        ):
            view = parties.run(dsl, conf)
        parties.settle()
        cpu_s.append((parties.cpu() - before).total)
        wall_s.append(((view.ended_ms or 0) - began_ms) / 1000)
        tasks = [t for t in view.tasks if t.component == LEARNER]
        learner_s.append(
            (max(t.ended_ms or 0 for t in tasks) - min(t.started_ms or 0 for t in tasks)) / 1000
        )
        pss_mib.append(sampler.peak.pss)
        carried_mib.append((parties.carried - carried) / (1 << 20))
        for role, own in zip(ROLES, (guest, host), strict=True):
            of_parties[role].append(own.peak.pss)
        least_s.append(least_arithmetic_s(line))
    budget = 1.3 * statistics.mean(least_s) + 0.3
    whole = line.wall_s if line.is_breast else None
    return [
        Figure(what="least arithmetic A", unit="s", values=least_s),
        Figure(what="CPU of the job", unit="s", values=cpu_s, budget=budget),
        Figure(what="wall of the job", unit="s", values=wall_s, budget=whole),
        Figure(what=LEARNER_WALL, unit="s", values=learner_s,
               budget=None if line.is_breast else line.wall_s),
        Figure(what="peak memory, sum of PSS", unit="MiB", values=pss_mib),
        *[
            Figure(what=f"peak memory of the {role}", unit="MiB", values=values)
            for role, values in of_parties.items()
        ],
        *[
            Figure(what="between the parties", unit="MiB", values=values)
            for values in ([carried_mib] if any(carried_mib) else [])
        ],
    ]  # fmt: skip


def measure_predictions(parties: Parties, line: Line, *, runs: int, cores: int) -> list[Figure]:
    """Train on few rows, then predict all of them; return the figures of the predictions."""
    client = parties.guest.client
    sent = client.submit(*job(line, cores=cores, few=True))
    parties.wait(sent.job_id)
    kept = ["reader_0", "data_transform_0", LEARNER]
    deployed = client.models.deploy(sent.model_id, sent.model_version, components=kept)
    tables = {role: ("experiment", f"made_{role}") for role in ROLES}
    learner_s = []
    for _ in range(runs):
        asked = client.models.predict(sent.model_id, deployed.model_version, tables)
        view = parties.wait(asked.job_id)
        tasks = [t for t in view.tasks if t.component == LEARNER]
        learner_s.append(
            (max(t.ended_ms or 0 for t in tasks) - min(t.started_ms or 0 for t in tasks)) / 1000
        )
    return [Figure(what=LEARNER_WALL, unit="s", values=learner_s, budget=line.wall_s)]


def ratio(line: Line, figures: Sequence[Figure], *, cores: int) -> list[Figure]:
    """Return the wall of xgboost on the joined columns, and how many times as long ours takes."""
    features, labels = breast() if line.is_breast else made(line)
    _, *plain_s = [
        xgboost_s(line, features, labels, cores=cores) for _ in range(1 + PLAIN_RUNS)
    ]  # the first one also starts threads
    (ours,) = (figure for figure in figures if figure.what == LEARNER_WALL)
    times = [value / statistics.median(plain_s) for value in ours.values]
    return [
        Figure(what="wall of xgboost in the clear", unit="s", values=plain_s),
        Figure(what="HeteroSecureBoost to xgboost", unit="times", values=times),
    ]


def xgboost_s(line: Line, features: Floats, labels: Floats, *, cores: int) -> float:
    """Return the wall seconds of one training with xgboost, its cut of bins included."""
    import xgboost

    params = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "max_depth": line.depth,
        "max_bin": line.bins,
        "eta": 0.3,
        "lambda": 0.1,
        "gamma": 1e-3,
        "min_child_weight": 0.0,
        "nthread": cores,
    }
    began = time.monotonic()
    xgboost.train(params, xgboost.DMatrix(features, label=labels, nthread=cores), line.trees)
    return time.monotonic() - began


def breast() -> tuple[Floats, Floats]:
    """Return the joined columns of FATE's example, and the labels."""
    parts = [read_csv(EXAMPLE.parent / "data" / f"breast_hetero_{role}.csv") for role in ROLES]
    guest, host = ({int(row[0]): row[1:] for row in part} for part in parts)
    rows = np.array([np.concatenate([guest[i], host[i]]) for i in guest if i in host])
    return rows[:, 1:], rows[:, 0]


def read_csv(path: Path) -> Floats:
    """Return the numbers below the head."""
    return np.loadtxt(path, delimiter=",", skiprows=1)


def job(line: Line, *, cores: int, few: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of a line; with `few` of its first rows."""
    dsl = json.loads((EXAMPLE / "dsl.json").read_text(encoding="utf-8"))
    conf = json.loads((EXAMPLE / "conf.json").read_text(encoding="utf-8"))
    conf = copy.deepcopy(conf)
    conf["job_parameters"]["common"]["task_cores"] = cores
    parameters = conf["component_parameters"]["common"][LEARNER]
    parameters.update(
        num_trees=line.trees,
        bin_num=line.bins,
        tree_param={"max_depth": line.depth},
        n_iter_no_change=False,
        encrypt_param={"method": line.scheme, "key_length": line.bits},
        **dict(line.more),
    )
    if line.is_breast:
        return dsl, conf
    components = dsl["components"]
    for name in ("intersection_0", "evaluation_0"):
        del components[name]
        conf["component_parameters"]["common"].pop(name, None)
    components[LEARNER]["input"]["data"]["train_data"] = ["data_transform_0.data"]
    for role in ("guest", "host"):
        reader = conf["component_parameters"]["role"][role]["0"]["reader_0"]
        reader["table"] = {"name": f"{'few' if few else 'made'}_{role}", "namespace": "experiment"}
    return dsl, conf


def uploader(line: Line, folder: Path) -> Callable[[Parties], None]:
    """Return what uploads data of a line's shape, made by a seed."""

    def upload(parties: Parties) -> None:
        features, labels = made(line)
        ids = np.arange(line.rows)
        parts = {
            "guest": (features[:, : line.guest], labels),
            "host": (features[:, line.guest :], None),
        }
        for party, role in ((parties.guest, "guest"), (parties.host, "host")):
            columns, own = parts[role]
            for name, rows in (("made", line.rows), ("few", min(line.rows, TRAINED_ROWS))):
                path = folder / f"{name}_{role}.csv"
                write(path, ids[:rows], columns[:rows], None if own is None else own[:rows])
                sent = party.client.upload(
                    path, namespace="experiment", table_name=path.stem, drop=True
                )
                view = party.client.wait(sent.job_id, timeout_s=600)
                if not view.succeeded:
                    raise RuntimeError(f"the upload of {path} ended: {view.reason}")

    return upload


def made(line: Line) -> tuple[Floats, Floats]:
    """Return data of a line's shape, made by a seed: rows x columns, and labels 0 and 1."""
    generator = np.random.default_rng(7)
    features = generator.normal(size=(line.rows, line.guest + line.host))
    truth = features @ generator.normal(size=features.shape[1])
    return features, (truth + generator.normal(size=line.rows) > 0).astype(int)


def write(path: Path, ids: Any, columns: Any, labels: Any) -> None:
    """Write a CSV with ids, labels if there are any, and columns."""
    names = [f"x{i}" for i in range(columns.shape[1])]
    head = ["id", *(["y"] if labels is not None else []), *names]
    with path.open("w", encoding="ascii") as file:
        file.write(",".join(head) + "\n")
        for place, row in zip(ids.tolist(), columns.tolist(), strict=True):
            label = f"{labels[place]}," if labels is not None else ""
            file.write(f"{place},{label}{','.join(f'{v:.5f}' for v in row)}\n")


def least_arithmetic_s(line: Line) -> float:
    """Return A of all trees of a line, with the costs of this moment."""
    e, m, d, slots = costs(line)
    goss = dict(line.more).get("run_goss")
    n = line.rows * 0.3 if goss else line.rows
    bits = SlotLayout(rows=line.rows, bits=30).slot_bits
    passes = 1.9 if n >= 2 * line.bins**2 else 1.0
    candidates = line.host * (line.bins - 1) * 2 ** (line.depth - 1)
    tree = n * e + n * line.host * m * (1 + (line.depth - 1) / 2) / passes
    tree += candidates * (bits + 1) * m + candidates / slots(bits) * (2 * e + d)
    return line.trees * tree


def costs(line: Line) -> tuple[float, float, float, Callable[[int], int]]:
    """Return seconds per encryption, product and decryption, and the slots of a ciphertext."""
    key = generate_key(Cryptosystem(line.scheme), line.bits)
    public = key.public
    key.prepare()
    count = 400
    values = list(range(1 << 60, (1 << 60) + count))
    ciphertexts = list(key.encrypt(values))

    def product() -> None:
        total = ciphertexts[0]
        for _ in range(25):
            for one in ciphertexts:
                total = total * one % public.modulus

    encrypting = timed(lambda: list(key.encrypt(values))) / count
    multiplying = timed(product) / (25 * count)
    return encrypting, multiplying, timed(lambda: key.decrypt(ciphertexts)) / count, public.slots


def timed(work: Callable[[], object]) -> float:
    """Return the median CPU seconds of three runs."""
    found = []
    for _ in range(3):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return statistics.median(found)


if __name__ == "__main__":
    main()
