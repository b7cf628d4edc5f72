"""Two servers that share a trained model, and a network between them that tests can break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedflow.app.protocol.commands import Incoming
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.domain.models.history import Author, BranchKey, Move, MoveKind
from fedflow.domain.models.model import (
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelVersion,
    canonical_json,
    part_of,
)
from fedflow.domain.records import Reply
from fedflow.domain.site import Site
from fedflow.wire import paths
from tests.unit.app.fakes import GUEST, HOST, NOW_MS, FakeParties, OneServer

MODEL_ID = "guest-9999#host-10000#model"
TRAINED = "2026112010000000000000"
DSL: dict[str, Any] = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "step_0": {
            "module": "Step",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
        "step_1": {
            "module": "Step",
            "input": {"data": {"data": ["step_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
    }
}
CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
    "job_parameters": {"common": {"task_cores": 1}},
    "component_parameters": {
        "common": {"step_0": {"depth": 3}},
        "role": {
            "guest": {"0": {"reader_0": {"table": {"namespace": "n", "name": "t"}}}},
            "host": {"0": {"reader_0": {"table": {"namespace": "n", "name": "t"}}}},
        },
    },
}

Fault = Callable[[str, str], bool]  # (destination, path) -> the message is lost


def no_fault(_destination: str, _path: str) -> bool:
    return False


@dataclass
class Network(FakeParties):
    """Calls between the servers of one test, at once; `own` is the caller's party."""

    own: str = ""
    servers: dict[str, OneServer] = field(default_factory=dict)
    loses_call: Fault = no_fault
    loses_reply: Fault = no_fault

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        self.calls.append((destination, path, body))
        if self.loses_call(destination, path):
            raise PartyUnreachable(party_id=destination, address="test", reason="lost")
        reply = answer(
            self.servers[destination], path, body, source=self.own, request_id=request_id
        )
        if self.loses_reply(destination, path):
            raise PartyUnreachable(party_id=destination, address="test", reason="lost")
        return reply


def answer(
    server: OneServer, path: str, body: Any, *, source: str | None, request_id: str | None = None
) -> Reply:
    """Return a server's answer to a command of the party `source`."""
    match = paths.parse_party_path(paths.PREFIX + path)
    assert match is not None
    version = match.params.get("version")
    return server.core.commands.answer(
        Incoming(
            name=match.name,
            job_id=match.params.get("job_id", ""),
            site=paths.site_of(match.params),
            body=body,
            component=match.params.get("component"),
            version=int(version) if version is not None else None,
            status=match.params.get("status"),
            source_party=source,
            request_id=request_id,
        )
    )


@dataclass
class Pair:
    """Guest 9999 and host 10000, each with its own server."""

    guest: OneServer
    host: OneServer

    def server(self, site: Site) -> OneServer:
        return self.guest if site == GUEST else self.host

    def network(self, site: Site = GUEST) -> Network:
        network = self.server(site).parties
        assert isinstance(network, Network)
        return network

    def live(self) -> None:
        """Let every server do its threads' work at once."""
        for server in (self.guest, self.host):
            server.live()

    def work(self) -> None:
        for server in (self.guest, self.host):
            server.work()

    def pass_time(self, ms: int) -> None:
        for server in (self.guest, self.host):
            server.clock.ms += ms

    def versions(self, site: Site, *, unready: bool = False) -> list[str]:
        """Return the versions of the model at a site, oldest first."""
        with self.server(site).store.read() as tx:
            found = tx.models.find(ModelFilter(model_id=MODEL_ID, with_unready=unready))
        return sorted(v.key.model_version for v in found if v.key.site == site)

    def share(self, site: Site, version: str, model_id: str = MODEL_ID) -> ModelVersion:
        with self.server(site).store.read() as tx:
            found = tx.models.get(ModelKey(site=site, model_id=model_id, model_version=version))
        assert found is not None
        return found

    def components(self, site: Site, version: str) -> list[ModelComponent]:
        with self.server(site).store.read() as tx:
            return tx.models.components(
                ModelKey(site=site, model_id=MODEL_ID, model_version=version)
            )


def make_pair(home: Path) -> Pair:
    """Return two servers with a trained model of two steps, and the tables to predict on."""
    guest_net = Network(local=frozenset({"9999"}), known=frozenset({"10000"}), own="9999")
    host_net = Network(local=frozenset({"10000"}), known=frozenset({"9999"}), own="10000")
    guest = OneServer(home=home / "guest", party_id="9999", parties=guest_net)
    host = OneServer(home=home / "host", party_id="10000", parties=host_net)
    for network in (guest_net, host_net):
        network.servers = {"9999": guest, "10000": host}
    pair = Pair(guest, host)
    for site in (GUEST, HOST):
        put_model(pair.server(site), trained_share(site))
        pair.server(site).put_table("n", "t")
    return pair


def trained_share(site: Site, **changes: Any) -> ModelVersion:
    members: dict[str, Any] = {
        "key": ModelKey(site=site, model_id=MODEL_ID, model_version=TRAINED),
        "job_id": TRAINED,
        "roles": {"guest": ["9999"], "host": ["10000"]},
        "initiator": GUEST,
        "train_dsl": DSL,
        "train_conf": CONF,
        "conf_on_party": {"job_parameters": {"task_cores": 1}},
        "fate_version": "1.11.4",
        "created_ms": NOW_MS,
        "updated_ms": NOW_MS,
    }
    return ModelVersion(**{**members, **changes})


def put_model(server: OneServer, version: ModelVersion, *, steps: tuple[int, ...] = (0, 1)) -> None:
    """Store a share with the models of some steps."""
    with server.store.transaction() as tx:
        tx.models.put(version)
        for number in steps:
            tx.models.put_component(component(server, version.key, number))


def component(server: OneServer, key: ModelKey, number: int) -> ModelComponent:
    meta = canonical_json({"step": number})
    param = canonical_json({"header": ["x0"], "site": key.site.key, "step": number})
    for content in (meta, param):
        server.blobs.put(content)
    return ModelComponent(
        key=key,
        component=f"step_{number}",
        module="Step",
        alias="model",
        meta=part_of("StepMeta", meta),
        param=part_of("StepParam", param),
        run_parameters={"depth": 3},
        created_ms=NOW_MS,
    )


def put_branch(server: Any, name: str, version: str) -> None:
    where = BranchKey(site=GUEST, model_id=MODEL_ID, name=name)
    with server.store.transaction() as tx:
        tx.model_history.add_move(
            Move(
                key=where,
                number=1,
                id=name,
                kind=MoveKind.CREATE,
                model_version=version,
                author=Author(party_id="9999"),
                created_ms=1,
            )
        )
