"""A server's own files: no other party, and no user's DSL, may have them read or deleted."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from fedflow.app.core import Core, Ports, build_core
from fedflow.app.participant.launcher import WorkerSettings
from fedflow.app.participant.processes import Processes
from fedflow.app.protocol.commands import Incoming
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.job_notifier import JobNotifier
from fedflow.app.protocol.timing import Timing
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import SubmitRefused
from fedflow.base.ids import PartyId
from fedflow.domain.job.engines import STANDALONE as ENGINE
from fedflow.domain.job.spec import ModuleInfo
from fedflow.domain.site import Role, Site
from tests.memory_store import MemoryStore
from tests.support.blobs import MemoryBlobs

JOB_ID = "202611201000000000000"
DSL = {"components": {"upload_0": {"module": "Upload"}}}


class Clock:
    def now_ms(self) -> int:
        return 1_800_000_000_000

    def monotonic_s(self) -> float:
        return 0.0


class Outside:
    """Party 10000's server, which knows the way to 9999; nothing is started or sent."""

    def modules(self) -> dict[str, ModuleInfo]:
        upload = ModuleInfo(
            module="Upload", roles=(Role.LOCAL,), data_ports=(), needs_input=False, outputs=()
        )
        return {"upload": upload}

    def check(
        self, module: str, parameters: Any, *, path: str, run: Any = None, **_: Any
    ) -> tuple[()]:
        return ()

    def knows(self, party_id: str) -> bool:
        return party_id in {"0", "9999", "10000"}

    def is_local(self, party_id: str) -> bool:
        return party_id in {"0", "10000"}

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_more: None


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    with store.transaction() as tx:
        tx.engines.put(ENGINE, 8, now_ms=0)
    return store


@pytest.fixture
def core(tmp_path: Path, store: MemoryStore) -> Core:
    outside: Any = Outside()
    clock = Clock()
    ports = Ports(
        store=store, blobs=MemoryBlobs(), catalog=outside, parties=outside, executor=outside,
        processes=Processes(), sessions=outside, wakeup=outside, clock=clock, rng=Random(1), salt=1,
    )  # fmt: skip
    settings = WorkerSettings(
        server_socket=tmp_path, federation_socket=tmp_path, tables_root=tmp_path,
        memory_bytes=None, receive_timeout_s=60, log_level="INFO",
    )  # fmt: skip
    return build_core(
        ports, folders=Folders(tmp_path), timing=Timing(),
        worker_settings=settings, host="here", notifier=JobNotifier(clock),
    )  # fmt: skip


def conf(initiator: Site, **roles: list[int]) -> dict[str, Any]:
    upload = {"file": "/etc/hostname", "namespace": "x", "table_name": "y", "delete_file": True}
    return {
        "dsl_version": 2,
        "initiator": {"role": initiator.role.value, "party_id": int(initiator.party_id)},
        "role": roles,
        "component_parameters": {"role": {"local": {"0": {"upload_0": upload}}}},
    }


def create(core: Core, initiator: Site, **roles: list[int]) -> None:
    body = {
        "dsl": DSL, "runtime_conf": conf(initiator, **roles),
        "initiator_role": initiator.role.value, "initiator_party_id": initiator.party_id,
    }  # fmt: skip
    core.commands.handle(
        Incoming(
            name="job_create",
            job_id=JOB_ID,
            site=Site(Role.LOCAL, PartyId("0")),
            body=body,
            source_party=initiator.party_id,
            request_id="r1",
        )
    )


def test_another_party_cannot_have_the_local_site_do_anything(core: Core) -> None:
    guest = Site(Role.GUEST, PartyId("9999"))
    with pytest.raises(SubmitRefused, match="own server's jobs only"):
        create(core, guest, guest=[9999], local=[0])


def test_the_local_site_takes_part_in_its_own_jobs(core: Core) -> None:
    create(core, Site(Role.LOCAL, PartyId("0")), local=[0])


def test_a_users_dsl_cannot_run_upload_on_a_file_of_the_server(core: Core) -> None:
    local = Site(Role.LOCAL, PartyId("0"))
    with pytest.raises(InvalidJobSpec) as caught:
        core.submissions.submit(DSL, conf(local, local=[0]))
    (problem,) = caught.value.problems
    assert (problem.path, problem.rule) == (
        "$.dsl.components.upload_0.module",
        "ModuleNotAllowed",
    )


def test_the_upload_route_may_run_upload(core: Core, store: MemoryStore) -> None:
    local = Site(Role.LOCAL, PartyId("0"))
    job_id, _ = core.submissions.begin(DSL, conf(local, local=[0]), internal=True)
    with store.read() as tx:
        assert tx.schedules.get(job_id) is not None
