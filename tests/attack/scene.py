"""Where attacks take place: two honest parties, a partner and strangers; what is there to steal.

9999 checks permissions and has granted nothing. 10000 has the settings that a new server has. 8888
is a party of jobs with each of them and hostile: its server plays along while its certificate is
used for other things, and it keeps what it sends and gets. 6666 is a partner without a job: the
others have a route to it, and nobody answers there. 7777 has a certificate, and nobody knows it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fedflow.client.client import Client
from fedflow.wire.api.jobs import JobStatusView
from tests.attack.loop import Loop
from tests.attack.recorder import Recorder
from tests.e2e.servers import (
    GUEST_ID,
    HOST_ID,
    QUICK,
    Party,
    Place,
    free_ports,
    make_certificates,
    running,
    wait_for,
)

PARTNER_ID: Final = "8888"
NEWCOMER_ID: Final = "6666"
STRANGER_ID: Final = "7777"
HOSTILE: Final = (PARTNER_ID, NEWCOMER_ID, STRANGER_ID)
CANARIES: Final = ("canary_column", "canary_cell")
"""Texts in tables of the honest parties that no answer to another party may hold."""

MIB: Final = 1 << 20
DESCRIPTORS: Final = 1024  #: the usual soft limit, which a server starts with
CHECKED: Final = {
    "FEDFLOW__PERMISSION__SWITCH": "true",
    "FEDFLOW__PERMISSION__COMPONENT": "true",
    "FEDFLOW__PERMISSION__DATASET": "true",
}
SIGNED: Final = {
    "FEDFLOW__AUTHENTICATION__CLIENT__SWITCH": "true",
    "FEDFLOW__AUTHENTICATION__CLIENT__HTTP_APP_KEY": "key",
    "FEDFLOW__AUTHENTICATION__CLIENT__HTTP_SECRET_KEY": "secret",
}
NOBODY: Final = 1  #: a port at which nobody answers
BIG: Final = 200_000  #: numbers of 8 bytes in a value that goes over a stream of its own
ROWS: Final = {"agreed": 3, "patients": 5}  #: of the tables, which tells them apart

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The running servers, and what has happened on them before the first attack."""

    guest: Party  #: 9999
    host: Party  #: 10000
    partner: Party  #: 8888
    tls: Path
    loop: Loop  #: on which the hostile parties are
    recorder: Recorder  #: what the partner sent and got in `joint_job`
    joint_job: str  #: an ended job of 9999 with the partner
    trained: str  #: a model version of 10000 with the partner
    deployed: str  #: the same, deployed

    start_mib: Mapping[str, float]  #: memory of the honest servers when all that had been done

    @property
    def honest(self) -> tuple[Party, Party]:
        return self.guest, self.host


def memory_mib(party: Party) -> float:
    """Return what of a server is resident, in MiB; 0 if it has ended."""
    assert party.process is not None
    try:
        pages = Path(f"/proc/{party.process.pid}/statm").read_text().split()[1]
    except OSError:
        return 0.0
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / MIB


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Run the servers below `folder` until the block ends."""
    with ExitStack() as stack:
        ids = (GUEST_ID, HOST_ID, PARTNER_ID)
        tls = make_certificates(folder / "tls", *ids, NEWCOMER_ID, STRANGER_ID)
        ports = free_ports(6)
        grpc = dict(zip(ids, ports[3:], strict=False))
        loop = stack.enter_context(Loop())
        recorder = stack.enter_context(Recorder(loop, tls=tls))
        to_partner = recorder.relay(GUEST_ID, to=(PARTNER_ID, grpc[PARTNER_ID]))
        from_partner = recorder.relay(PARTNER_ID, to=(GUEST_ID, grpc[GUEST_ID]))
        routes = {
            GUEST_ID: {HOST_ID: grpc[HOST_ID], PARTNER_ID: to_partner, NEWCOMER_ID: NOBODY},
            HOST_ID: {GUEST_ID: grpc[GUEST_ID], PARTNER_ID: grpc[PARTNER_ID], NEWCOMER_ID: NOBODY},
            PARTNER_ID: {GUEST_ID: from_partner, HOST_ID: grpc[HOST_ID]},
        }
        settings = {GUEST_ID: CHECKED, HOST_ID: {}, PARTNER_ID: {}}
        places = [
            Place(
                home=folder / party_id, party_id=party_id, http_port=port,
                grpc_port=grpc[party_id], tls=tls,
                routes={to: f"127.0.0.1:{number}" for to, number in routes[party_id].items()},
                settings={**QUICK, **settings[party_id]},
            )
            for party_id, port in zip(ids, ports[:3], strict=False)
        ]  # fmt: skip
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with _soft_limit(DESCRIPTORS):
            guest, host, partner = stack.enter_context(running(*places))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8 * DESCRIPTORS, hard), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        _upload(folder, guest, host, partner)
        joint_job = _run(guest, *_joint_job())
        recorder.stop_recording()
        trained = _run(host, *_model_job())
        view = host.client.models.deploy(_model_id(), trained)
        yield Scene(
            guest=guest, host=host, partner=partner, tls=tls, loop=loop, recorder=recorder,
            joint_job=joint_job, trained=trained, deployed=view.model_version,
            start_mib={str(one.place.party_id): memory_mib(one) for one in (guest, host)},
        )  # fmt: skip


@contextmanager
def _soft_limit(number: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _upload(folder: Path, *parties: Party) -> None:
    for name, rows in ROWS.items():
        column = "canary_column" if name == "patients" else "x0"
        path = folder / f"{name}.csv"
        lines = (f"i{n},{n if name == 'agreed' else 'canary_cell'}\n" for n in range(rows))
        path.write_text(f"id,{column}\n" + "".join(lines))
        for party in parties:
            if name == "agreed" or str(party.place.party_id) != PARTNER_ID:
                assert party.upload(path, name, drop=True).succeeded


def _run(party: Party, dsl: Json, conf: Json) -> str:
    """Run a job to its good end at a party's server, and return its id."""
    view = party.client.wait(party.client.submit(dsl, conf).job_id, timeout_s=60)
    assert view.succeeded, view
    return view.job_id


def conf_of(initiator: tuple[str, str], roles: Json, **more: Any) -> Json:
    """Return a conf of a job; `initiator` is (role, party)."""
    role, party = initiator
    return {
        "dsl_version": 2,
        "initiator": {"role": role, "party_id": int(party)},
        "role": {name: [int(one) for one in ids] for name, ids in roles.items()},
        **more,
    }


def reads(table: str) -> Json:
    """Return the section of a site whose Reader reads a table."""
    return {"0": {"reader_0": {"table": {"namespace": "experiment", "name": table}}}}


READER: Final[Json] = {"module": "Reader", "output": {"data": ["data"]}}
ONE: Final[Json] = {"components": {"empty_0": {"module": "Empty", "output": {"data": ["data"]}}}}
TRANSFORM: Final[Json] = {
    "module": "DataTransform",
    "input": {"data": {"data": ["reader_0.data"]}},
    "output": {"data": ["data"], "model": ["model"]},
}


def _joint_job() -> tuple[Json, Json]:
    """Return a job of 9999 and the partner in which small and big values travel."""
    dsl = {"components": {"reader_0": READER, "toy_0": {"module": "SecureAddExample"}}}
    conf = conf_of(
        ("guest", GUEST_ID), {"guest": [GUEST_ID], "host": [PARTNER_ID]},
        component_parameters={
            "common": {"toy_0": {"data_num": BIG}},
            "role": {"guest": reads("agreed"), "host": reads("agreed")},
        },
    )  # fmt: skip
    return dsl, conf


MODEL_ROLES: Final = {"guest": [HOST_ID], "host": [PARTNER_ID]}


def _model_id() -> str:
    return f"guest-{HOST_ID}#host-{PARTNER_ID}#model"


def _model_job() -> tuple[Json, Json]:
    """Return a job of 10000 that trains a small model with the partner."""
    dsl = {"components": {"reader_0": READER, "data_transform_0": TRANSFORM}}
    conf = conf_of(
        ("guest", HOST_ID), MODEL_ROLES,
        component_parameters={
            "common": {"data_transform_0": {"with_label": False}},
            "role": {"guest": reads("agreed"), "host": reads("agreed")},
        },
    )  # fmt: skip
    return dsl, conf


# --- honest work ----------------------------------------------------------------------------------

CHAIN: Final = 10  #: tasks of an honest chain


def honest_job() -> tuple[Json, Json]:
    """Return a chain of ten empty tasks of 9999 and 10000, and beside it one with big values."""
    components: Json = {"toy_0": {"module": "SecureAddExample"}}
    for number in range(CHAIN):
        components[f"empty_{number}"] = {"module": "Empty", "output": {"data": ["data"]}}
        if number:
            given = {"data": {"data": [f"empty_{number - 1}.data"]}}
            components[f"empty_{number}"]["input"] = given
    conf = conf_of(
        ("guest", GUEST_ID), {"guest": [GUEST_ID], "host": [HOST_ID]},
        job_parameters={"common": {"task_parallelism": 2, "auto_retries": 0}},
        component_parameters={"common": {"toy_0": {"data_num": BIG}}},
    )  # fmt: skip
    return {"components": components}, conf


def wait_end(client: Client, job_id: str, *, within_s: float) -> JobStatusView:
    """Return how a job ended. Raises: AssertionError: not within `within_s`."""

    def look() -> JobStatusView | None:
        view = client.job(job_id)
        return view if view.is_final else None

    return wait_for(look, f"the end of job {job_id}", within_s=within_s)
