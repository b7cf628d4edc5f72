"""Two parties with a Flow server and a serving process each, and rows to ask them for."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.jobs import Json
from tests.e2e.servers import (
    DATA,
    GUEST_ID,
    HOST_ID,
    QUICK,
    Pair,
    make_certificates,
    two_parties,
)
from tests.support.serving_processes import SHIPPED, ServingPlace

ASKED = 20  #: rows that are compared
TOKEN = "of-this-test-alone"
HOST_TABLE: Json = {"path": str(DATA / "breast_hetero_host.csv"), "ids": ["id"]}


@dataclass(frozen=True)
class OnlineParties:
    """Two parties with a Flow server and a serving process each."""

    pair: Pair
    guest: ServingPlace
    host: ServingPlace

    def ask(self, service: str, user: str, features: Json) -> Any:
        """Return the answer to a single request at the guest's port of callers."""
        body = {"featureData": features, "sendToRemoteFeatureData": {"id": user}}
        request = {"head": {"serviceId": service}, "body": body}
        return inference(self.guest, request)


@contextmanager
def online_parties(
    folder: Path,
    *,
    settings: Mapping[str, str] = QUICK,
    host_table: Json = HOST_TABLE,
    **guest_settings: Any,
) -> Iterator[OnlineParties]:
    """Start all four; `settings` are of the Flow servers, the others of serving processes."""
    with ExitStack() as stack:
        tls = make_certificates(folder / "serving-tls", GUEST_ID, HOST_ID)
        home = folder / "serving-host"
        own = own_settings(home, tls, HOST_ID)
        own["partners"]["allowed"] = [GUEST_ID]
        own["features"] = {"source": "table", "options": host_table}
        host = ServingPlace(home, own, words=SHIPPED)
        stack.callback(host.stop)
        host.start()
        route = f"127.0.0.1:{host.settings['partners']['port']}"
        home = folder / "serving-guest"
        own = {**own_settings(home, tls, GUEST_ID), "routes": {HOST_ID: route}, **guest_settings}
        guest = ServingPlace(home, own, words=SHIPPED)
        stack.callback(guest.stop)
        guest.start()
        pair = stack.enter_context(
            two_parties(
                folder,
                settings=settings,
                guest_settings=servings(guest),
                host_settings=servings(host),
            )
        )
        yield OnlineParties(pair, guest, host)


def own_settings(home: Path, tls: Path, party_id: str) -> Json:
    """Return a party's settings, with ports of the kernel, that of partners with mutual TLS."""
    files = {"ca": tls / "ca.pem", "certificate": tls / f"{party_id}.pem"}
    files["key"] = tls / f"{party_id}.key"
    return {
        "party_id": party_id,
        "home": str(home),
        "callers": {"port": 0},
        "admin": {"port": 0, "token": TOKEN},
        "partners": {"port": 0, "tls": {name: str(path) for name, path in files.items()}},
    }


def servings(place: ServingPlace) -> dict[str, str]:
    """Return the settings of a Flow server that name a serving process."""
    address = f"127.0.0.1:{place.settings['admin']['port']}"
    return {
        "FEDFLOW__SERVINGS__HOSTS": json.dumps([address]),
        "FEDFLOW__SERVINGS__TOKEN": TOKEN,
    }


def inference(place: ServingPlace, request: Json) -> Any:
    """Return the answer to a single request at a party's port of callers."""
    status, answer = place.call("callers", "POST", "/federation/v1/inference", request)
    assert status == 200, answer
    return answer


def features_of(table: str) -> dict[str, Json]:
    """Return the features of the first rows of a file by sample id."""
    with (DATA / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for _, row in zip(range(ASKED), csv.DictReader(file), strict=False)]
    return {
        row["id"]: {name: float(value) for name, value in row.items() if name.startswith("x")}
        for row in rows
    }


def scores_of(path: Path) -> dict[str, float]:
    """Return the scores of a predict job's table by sample id."""
    with path.open(newline="", encoding="utf-8") as file:
        return {row["id"]: float(row["predict_score"]) for row in csv.DictReader(file)}
