"""What people do, at any party and at any time; most of it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedflow.app.core import Core
from fedflow.app.initiator.parameter_updates import Sections
from fedflow.base.errors.error import FedflowError
from fedflow.domain.states import JobStatus
from tests.sim.jobs import elastic_job, random_job, random_parameters

if TYPE_CHECKING:
    from tests.sim.server import Server
    from tests.sim.world import World

_MAX_JOBS = 6
_CONTINUE_MS = 5_000  #: in the end, somebody lets what is held go on as often


class Users:
    """The users of all parties."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rng = world.user_rng
        self.busy = 0  #: requests without an answer
        self._submits: list[tuple[str, Any, Any, str]] = []  #: party, DSL, conf, idempotency key

    def submit(self) -> None:
        """Submit a random job at a random party."""
        if len(self._submits) >= _MAX_JOBS:
            return
        parties = tuple(self.rng.sample(tuple(self._world.servers), k=len(self._world.servers)))
        if self._world.faults.elastic:
            dsl, conf = elastic_job(self.rng, parties)
        else:
            dsl, conf = random_job(self.rng, parties, options=self._world.faults.options)
        key = f"key-{len(self._submits)}"
        conf["job_parameters"]["common"]["idempotency_key"] = key
        self._submits.append((parties[0], dsl, conf, key))
        self._submit(*self._submits[-1])

    def submit_again(self) -> None:
        """Repeat an earlier submit, whether it was answered or not."""
        if self._submits:
            self._submit(*self.rng.choice(self._submits))

    def _submit(self, party_id: str, dsl: Any, conf: Any, key: str) -> None:
        server = self._world.servers[party_id]
        self._ask(f"submit {key}", server, lambda core: core.submissions.submit(dsl, conf))

    def stop(self) -> None:
        """Stop any job, with any status."""
        job_id, status = self._job(), self.rng.choice(("canceled", "canceled", "failed", "timeout"))
        self._ask(f"stop {job_id} {status}", self._any(), lambda c: c.jobs.stop(job_id, status))

    def rerun(self) -> None:
        """Run any job again, from anywhere, at times with other parameters."""
        job_id = self._job()
        names = self.rng.choice((None, None, ["c0"], ["c0", "c1"], ["c2"]))
        force = self.rng.random() < 0.3
        failed_only = not force and self.rng.random() < 0.2
        parameters = random_parameters(self.rng) if self.rng.random() < 0.3 else {}
        sections = Sections(job_parameters={"common": parameters} if parameters else {})
        self._ask(
            f"rerun {job_id} {names} {force=} {failed_only=} {parameters}",
            self._any(),
            lambda core: core.reruns.rerun(
                job_id, components=names, force=force, failed_only=failed_only, sections=sections
            ),
        )

    def update(self) -> None:
        """Change parameters of any job."""
        job_id, parameters = self._job(), random_parameters(self.rng)
        self._ask(
            f"update {job_id} {parameters}",
            self._any(),
            lambda core: core.parameter_updates.update(
                job_id, job_parameters={"common": parameters}, component_parameters={}
            ),
        )

    def pause(self) -> None:
        """Pause any job, from anywhere."""
        job_id = self._job()
        self._ask(f"pause {job_id}", self._any(), lambda core: core.control.pause(job_id))

    def proceed(self) -> None:
        """Let any job go on, from anywhere."""
        job_id, steps = self._job(), self.rng.choice((None, 1, 2))
        self._ask(
            f"continue {job_id} {steps=}",
            self._any(),
            lambda core: core.control.proceed(job_id, steps=steps),
        )

    def let_all_go_on(self) -> None:
        """Let every job that is held go on, now and again until none is left."""
        for server in self._world.servers.values():
            with server.store.read() as tx:
                active = [tx.schedules.get(job_id) for job_id in tx.schedules.active()]
            held = [j.job_id for j in active if j is not None and j.status is JobStatus.WAITING]
            for job_id in held:
                self._ask(
                    f"continue {job_id}",
                    server,
                    lambda core, job_id=job_id: core.control.proceed(job_id, all_=True),
                )
        self._world.after(_CONTINUE_MS, self.let_all_go_on)

    def _job(self) -> str:
        job_ids = self._world.check.job_ids()
        return self.rng.choice(job_ids) if job_ids else "none"

    def _any(self) -> Server:
        return self._world.servers[self.rng.choice(tuple(self._world.servers))]

    def _ask(self, text: str, server: Server, what: Callable[[Core], object]) -> None:
        world = self._world
        world.note(f"> {text}", where=server.party_id)
        world.trace.count(f"user: {text.split(maxsplit=1)[0]}")

        def ask() -> None:
            try:
                server.enter(what)
            except FedflowError as exc:
                world.note(f"< {text.split(maxsplit=1)[0]}: {exc}", where=server.party_id)
            finally:
                self.busy -= 1

        if server.core is not None and not server.is_stalled():
            self.busy += 1
            world.in_fiber(ask)
