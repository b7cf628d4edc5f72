"""Both sides of a Flower run in threads: over the federation of fedflow.testing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedflow.flower.grid import HELLO, REPLY, FederationGrid, GridLimits
from fedflow.flower.messages import SERVER_NODE, identify
from fedflow.sdk import Role, Site
from fedflow.testing.federation import LocalFederation

SERVER = Site(Role.ARBITER, "10000")
CLIENTS = (Site(Role.GUEST, "9999"), Site(Role.HOST, "10000"), Site(Role.HOST, "10001"))
NODES = {SERVER_NODE + 1 + i: site for i, site in enumerate(CLIENTS)}
SAID = {"flwr": "1.41.0", "app": "test", "version": "1"}
RUN = 77

identify(RUN, SERVER_NODE)  # messages are made before there is a federation


def federation() -> LocalFederation:
    """Return the federation of the server and its clients."""
    return LocalFederation((SERVER, *CLIENTS), receive_timeout_s=20.0)


def grid_of(fed: LocalFederation, **limits: Any) -> FederationGrid:
    """Return the server's Grid."""
    known = {"round_timeout_s": 10.0, "start_timeout_s": 5.0, "min_nodes": 1, **limits}
    return FederationGrid(
        fed.at(SERVER),
        component="flower_0",
        nodes=NODES,
        run_id=RUN,
        limits=GridLimits(**known),
        hello=SAID,
    )


def hello(fed: LocalFederation, *sites: Site) -> None:
    """Let clients say that they are there."""
    for site in sites or CLIENTS:
        fed.at(site).send(REPLY, SAID, to=SERVER, tag=HELLO)


@contextmanager
def played(client: Callable[[Site], None], *sites: Site) -> Iterator[None]:
    """Run `client` for each site in a thread while the block runs; wait for their ends."""
    threads = [threading.Thread(target=client, args=(site,)) for site in sites or CLIENTS]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(20.0)
        assert not thread.is_alive()


def content(*values: float, **config: Any) -> RecordDict:
    """Return a content with one array, a metric and a config."""
    import numpy as np

    return RecordDict(
        {
            "arrays": ArrayRecord([np.array(values)]),
            "metrics": MetricRecord({"num-examples": len(values)}),
            "config": ConfigRecord(config),
        }
    )


def to_all(what: RecordDict, kind: str = "train", nodes: Any = NODES) -> list[Message]:
    """Return a message of the same content for each node."""
    return [Message(what, node, kind) for node in nodes]
