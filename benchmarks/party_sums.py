"""A secure sum beside the plain one between parties: real servers with mutual TLS.

    python benchmarks/party_sums.py [--numbers N] [--members N] [--lost N] [--rounds N] [--json]

Each member and the aggregator has a server process. The members compute in one process, each in a
thread; the aggregator in another. Both sums are those of horizontal training, with the same numbers
(float64): the plain one has no masks. The lost members send keys and shares, and no vector. A round
is over when the aggregator has the sum as floats. Rounds of both kinds take turns; the first of
each is not counted.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # the helpers of the tests

from benchmarks.data_plane import SESSION, TOKEN, Child, hear, run_server, say
from benchmarks.figures import Figure, Machine, arguments, show
from fedflow.base.ids import PartyId
from fedflow.components.horizontal.sums import (
    PlainSum,
    SecureMember,
    SecureSum,
    Sum,
    decoded,
    encoded,
    plan_of,
)
from fedflow.components.secure_aggregation.plan import SumPlan, SumStage
from fedflow.domain.site import Role, Site
from fedflow.federation.handle import FederationHandle
from tests.support.certificates import make_ca
from tests.support.data_plane import credentials_of

ARBITER = Site(Role.ARBITER, PartyId("9000"))
KINDS = ("plain", "secure")
BUDGET_S = 1.5
BUDGET_RATIO = 4.0


def members_of(count: int) -> list[Site]:
    """Return the sites of the members."""
    return [Site(Role.HOST, PartyId(str(10_000 + number))) for number in range(count)]


class Round:
    """What both ends know of a round."""

    def __init__(self, spec: dict[str, Any], number: int, kind: str) -> None:
        self.sites = members_of(spec["members"])
        self.lost = self.sites[: spec["lost"]]
        self.layout = {"weights": (spec["numbers"],)}
        self.is_secure = kind == "secure"
        self.tag = f"{number}-{kind}"
        self.plan: SumPlan = plan_of(
            [site.key for site in self.sites],
            self.layout,
            session=SESSION,
            serial=number,
            least=0,
            fraction_bits=24,
        )

    def due(self, stage: SumStage) -> list[Site]:
        """Return whose messages arrive in a stage."""
        present = stage not in (SumStage.INPUTS, SumStage.UNMASKING)
        return [site for site in self.sites if present or site not in self.lost]


# --- the processes -------------------------------------------------------------------------------


def run_members(spec: dict[str, Any]) -> None:
    """Take part in each round that the parent names, as every member."""
    values = np.random.default_rng(1).normal(size=spec["numbers"])
    sites = members_of(spec["members"])
    with ThreadPoolExecutor(len(sites)) as pool:
        handles = {site: handle_of(spec, site) for site in sites}

        def act(one: Round) -> None:
            take_part = secure_member if one.is_secure else plain_member
            list(pool.map(lambda site: take_part(one, site, handles[site], values), sites))

        answer(spec, act)
        for handle in handles.values():
            handle.close()


def plain_member(one: Round, site: Site, handle: FederationHandle, values: Any) -> None:
    if site not in one.lost:
        vector = encoded({"weights": values}, one.layout, rows=1, plan=one.plan)
        handle.send("inputs", {"vector": vector}, to=ARBITER, tag=one.tag)


def secure_member(one: Round, site: Site, handle: FederationHandle, values: Any) -> None:
    member = SecureMember(one.plan, site.key)
    for stage in one.plan.stages:
        if site not in one.due(stage):
            return
        question = None
        if stage is not SumStage.KEYS:
            question = handle.recv(f"to {stage.value}", from_=ARBITER, tag=one.tag)
        match stage:
            case SumStage.KEYS:
                message = member.keys()
            case SumStage.SHARES:
                message = member.shares(question)
            case SumStage.INPUTS:
                vector = encoded({"weights": values}, one.layout, rows=1, plan=one.plan)
                message = member.masked(question, vector)
            case _:
                message = member.unmask(question)
        handle.send(stage.value, message, to=ARBITER, tag=one.tag)


def run_aggregator(spec: dict[str, Any]) -> None:
    """Add up in each round that the parent names."""
    handle = handle_of(spec, ARBITER)

    def act(one: Round) -> None:
        rows = {site.key: 1 for site in one.sites}
        adding: Sum = (
            SecureSum(one.plan, threads=2)
            if one.is_secure
            else PlainSum(one.plan, rows=rows, keeps=False)
        )
        while (stage := adding.stage) is not None:
            for site in one.due(stage):
                adding.receive(site.key, handle.recv(stage.value, from_=site, tag=one.tag))
            questions = adding.close_stage()
            if adding.stage is not None:
                for site in one.due(adding.stage):
                    handle.send(
                        f"to {adding.stage.value}", questions[site.key], to=site, tag=one.tag
                    )
        arrays, count = decoded(adding.sum(), one.layout, plan=one.plan)
        assert count == len(one.sites) - len(one.lost)
        expected = count * np.random.default_rng(1).normal(size=1000)
        assert np.abs(arrays["weights"][:1000] - expected).max() < 1e-6

    answer(spec, act)
    handle.close()


def handle_of(spec: dict[str, Any], site: Site) -> FederationHandle:
    socket = Path(spec["home"]) / site.party_id / "data.sock"
    return FederationHandle(socket, session=SESSION, site=site, token=TOKEN)


def answer(spec: dict[str, Any], act: Callable[[Round], None]) -> None:
    """Act in the rounds that the parent names, and say how much processor time each took."""
    while (command := hear())["do"] != "end":
        one = Round(spec, command["number"], command["kind"])
        before_s = time.process_time()
        act(one)
        say(time.process_time() - before_s)


# --- the parent ----------------------------------------------------------------------------------


@contextmanager
def parties(home: Path, spec: dict[str, Any]) -> Iterator[tuple[list[Child], Child, Child]]:
    """Start a server for each party, the members and the aggregator."""
    authority = make_ca()
    sites = [ARBITER, *members_of(spec["members"])]
    keys = [site.key for site in sites]
    with ExitStack() as stack:
        servers = []
        for site in sites:
            folder = home / site.party_id
            folder.mkdir()
            made = credentials_of(site.party_id, authority)
            (folder / "cert.pem").write_bytes(made.certificate)
            (folder / "key.pem").write_bytes(made.key)
            (folder / "ca.pem").write_bytes(made.authorities)
            server = {"home": str(folder), "party": site.party_id, "sites": keys}
            servers.append(Child("server", server, script=__file__))
            stack.callback(servers[-1].close)
        ports = {
            site.party_id: server.answer() for site, server in zip(sites, servers, strict=True)
        }
        for server in servers:
            server.ask(ports)
        members, aggregator = (
            Child(kind, {**spec, "home": str(home)}, script=__file__)
            for kind in ("members", "aggregator")
        )
        stack.callback(members.close)
        stack.callback(aggregator.close)
        yield servers, members, aggregator


def measure(spec: dict[str, Any], rounds: int) -> list[Figure]:
    """Return the figures of both sums."""
    wall: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    servers_cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with (
        tempfile.TemporaryDirectory(prefix="fedflow-bench-") as folder,
        parties(Path(folder), spec) as (servers, members, aggregator),
    ):
        for number in range(rounds + 1):
            for kind in KINDS:
                before_s = sum(server.cpu_s() for server in servers)
                begun = time.perf_counter()
                for child in (members, aggregator):
                    child.tell({"do": "round", "kind": kind, "number": number})
                computing = [child.answer() for child in (aggregator, members)]
                wall[kind].append(time.perf_counter() - begun)
                cpu[kind].append(sum(computing))
                servers_cpu[kind].append(sum(server.cpu_s() for server in servers) - before_s)
    plain, secure = (wall[kind][1:] for kind in KINDS)
    what = f"sum of {spec['numbers']:,} numbers, {spec['members']} members, {spec['lost']} lost"
    middle = statistics.median(plain)
    figures = [
        Figure(what=f"secure {what}", unit="s", values=secure, budget=BUDGET_S),
        Figure(what=f"plain {what}", unit="s", values=plain),
        Figure(
            what="secure over plain",
            unit="x",
            values=[one / middle for one in secure],
            budget=BUDGET_RATIO,
        ),
    ]
    for name, seconds in (("executors", cpu), ("servers", servers_cpu)):
        for kind in KINDS:
            figure = Figure(what=f"{kind}: CPU of the {name}", unit="s", values=seconds[kind][1:])
            figures.append(figure)
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--numbers", type=int, default=1_000_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--lost", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    machine = Machine()
    spec = {"numbers": given.numbers, "members": given.members, "lost": given.lost}
    show("Sums of parties", measure(spec, given.rounds), as_json=given.json, machine=machine)


if __name__ == "__main__":
    runs = {"server": run_server, "members": run_members, "aggregator": run_aggregator}
    if len(sys.argv) > 2 and sys.argv[1] in runs:
        runs[sys.argv[1]](json.loads(sys.argv[2]))
    else:
        main()
