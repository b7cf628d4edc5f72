"""Bodies of the commands between parties: built by the sender, read by the receiver.

`wire/paths.py` names the body of each command. A member that a body does not know is ignored, one
that an older release leaves out has a default. Source of FATE's members:
`docs/reference/rest.md#calls-between-servers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

import msgspec

from fedflow.base.decoding import mistake_of, read_as
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import english
from fedflow.domain.job.warning import JobWarning

MIB: Final = 1024 * 1024
LARGE: Final = 32 * MIB  #: of commands that carry a DSL or a conf
MAX_COUNT: Final = 10**9  #: of epochs and attempts, as far as the store counts

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
PublishStep = Literal["prepare", "commit", "abort", "unload"]
WireReason = dict[str, Any]  #: see `reason_to_wire` in `app/protocol/party_commands.py`


def _null() -> None:
    """Be the default of a member that is sent as null, while others are left out then."""


class CommandBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The members of a command's body. A default made by a factory is sent, others are left out."""

    OPTIONAL: ClassVar[frozenset[str]] = frozenset()
    """Members that count as absent if their value is of a wrong type."""
    MAX_BYTES: ClassVar[int] = 4 * MIB
    """Of its JSON text."""


B = TypeVar("B", bound=CommandBody)


def read_command(given: Any, kind: type[B]) -> B:
    """Return a body as its class; anything but an object counts as an empty one.

    Raises: BadRequest: a member has a wrong type or value; `path` is where.
    """
    members = given if isinstance(given, dict) else {}
    while True:
        try:
            return read_as(members, kind)
        except msgspec.ValidationError as exc:
            path, sentence = mistake_of(exc)
            name = path.removeprefix("$.").partition(".")[0].partition("[")[0]
            if name not in kind.OPTIONAL or name not in members:
                raise BadRequest(reason=f"{path}: {sentence}", path=path) from exc
            members = {n: value for n, value in members.items() if n != name}


def counted(value: Any) -> int | None:
    """Return an epoch that another party named, None if it is no number that the store counts."""
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def plain(body: CommandBody) -> dict[str, Any]:
    """Return a body as the JSON values that are stored and sent."""
    values: dict[str, Any] = msgspec.to_builtins(body, enc_hook=english)
    return values


class NoMembers(CommandBody, frozen=True, kw_only=True):
    """Nothing is said beyond the path."""


class OfEpoch(CommandBody, frozen=True, kw_only=True):
    """A command of one epoch of a job, that is of one rerun; 0 is the first run."""

    epoch: Count = msgspec.field(default_factory=int)


class TaskOfEpoch(CommandBody, frozen=True, kw_only=True):
    """A command about a task. A first release does not name the epoch."""

    epoch: int | None = None


class Statuses(CommandBody, frozen=True, kw_only=True):
    """How the tasks of a job stand, which travels along with other commands."""

    OPTIONAL = frozenset({"tasks", "progress"})

    tasks: dict[str, Any] | None = None  #: component -> [attempt, final status]
    progress: int | None = None  #: of the job, in percent


class Heartbeat(CommandBody, frozen=True, kw_only=True):
    """The initiator is there; `jobs` are `JobHeartbeat` by job id."""

    OPTIONAL = frozenset({"initiator_party_id"})

    jobs: dict[str, Any] | None = None
    initiator_party_id: str | None = None


class JobHeartbeat(Statuses, frozen=True, kw_only=True):
    """What a heartbeat says of one job; `sites` are the phases of the party's sites."""

    OPTIONAL = Statuses.OPTIONAL | {"sites", "status"}

    epoch: Any = None
    status: str | None = None  #: how it has ended: the party says whether it did so there
    sites: dict[str, Any] | None = None


class HeartbeatAnswer(CommandBody, frozen=True, kw_only=True):
    """The answer: by job id and site, how the site's part of the job stands (`SiteAnswer`)."""

    OPTIONAL = frozenset({"jobs", "run"})

    jobs: dict[str, Any] | None = None
    run: str | None = None  #: another one after each start of the party's server


class SiteAnswer(CommandBody, frozen=True, kw_only=True):
    """How a site's part of a job stands; a job that is not there has no status."""

    OPTIONAL = frozenset({"tasks", "reason"})

    status: Any = msgspec.field(default_factory=_null)
    epoch: Any = None
    reason: WireReason | None = None  #: why it ended
    tasks: dict[str, Any] | None = None  #: `TaskAnswer` by component
    stop: Any = msgspec.UNSET  #: a wish to end the job, with PULL


class TaskAnswer(CommandBody, frozen=True, kw_only=True):
    """How a site's part of a task stands; times in ms."""

    OPTIONAL = frozenset({"progress", "reason"})

    version: Any = None
    party_status: Any = msgspec.field(default_factory=_null)
    progress: float | None = msgspec.field(default_factory=_null)
    reason: WireReason | None = msgspec.field(default_factory=_null)
    start_time: Any = msgspec.field(default_factory=_null)
    end_time: Any = msgspec.field(default_factory=_null)
    requested: Any = msgspec.field(default_factory=_null)
    launch: Count = 0  #: of which this is told


class TaskCollected(TaskAnswer, frozen=True, kw_only=True):
    """The answer to `task_collect`."""

    job_id: str
    task_id: str
    task_version: int
    role: str
    party_id: str
    status: str


class OutputTable(CommandBody, frozen=True, kw_only=True):
    """One of the tables that `output_table` answers."""

    table_name: str
    table_namespace: str
    data_name: str


class CreateJob(CommandBody, frozen=True, kw_only=True):
    """A job that the site is to take part in."""

    MAX_BYTES: ClassVar[int] = LARGE

    epoch: Count = msgspec.field(default_factory=int)
    model_digest: Any = None  #: of the model that it predicts with
    inherited: Any = None  #: what it takes over from an earlier job
    loaded_models: Any = None  #: digests of the models that its components load
    dsl: Any = None
    runtime_conf: Any = None
    initiator_role: str = ""
    initiator_party_id: str | int = ""
    create_time: Any = None  #: ms
    warnings: list[JobWarning] = []  #: for the initiator's own site: all that the submit had
    rejoins: bool = False  #: the site was absent, and may have the job already


class RerunJob(OfEpoch, frozen=True, kw_only=True):
    """An ended job opens again; `tasks` are the versions of the new attempts by component."""

    MAX_BYTES: ClassVar[int] = LARGE

    runtime_conf: Any = None
    tasks: dict[str, Count]
    requested_by: str | None = None  #: key of another site than the initiator that wants it


class ChangeParameters(OfEpoch, frozen=True, kw_only=True):
    """A new conf of an ended job. With `runs`, the components of a rerun, it is only checked."""

    MAX_BYTES: ClassVar[int] = LARGE

    runtime_conf: Any = None
    runs: list[str] | None = None
    requested_by: str | None = None  #: as for `RerunJob`


class ReturnCores(OfEpoch, frozen=True, kw_only=True):
    """The job's cores are given back; `reason` is why a job that ran is held."""

    OPTIONAL = frozenset({"reason"})

    reason: WireReason | None = None


class EndJob(Statuses, frozen=True, kw_only=True):
    """The job has ended; the path says how."""

    OPTIONAL = Statuses.OPTIONAL | {"reason", "tag"}

    epoch: Count = msgspec.field(default_factory=int)
    reason: WireReason | None = msgspec.field(default_factory=_null)
    tag: str | None = None


class CreateTask(TaskOfEpoch, frozen=True, kw_only=True):
    """A further attempt of a task."""

    OPTIONAL = frozenset({"auto_retries"})

    auto_retries: int = msgspec.field(default_factory=int)


class StartTask(Statuses, frozen=True, kw_only=True):
    """A site's part of a task begins; `absent` upstream components have no outputs."""

    epoch: int | None = None
    absent: list[str] | None = None
    launch: Count = 0  #: how often an elastic job has started it again


class SettleTask(TaskOfEpoch, frozen=True, kw_only=True):
    """The task has ended elsewhere; the path says how."""

    OPTIONAL = frozenset({"reason"})

    reason: WireReason | None = msgspec.field(default_factory=_null)
    absent_launch: Count | None = None  #: the site is absent: this launch of its part passes


class InitiatorStop(SettleTask, frozen=True, kw_only=True):
    """A site wants the job to end. It counts in the epoch in which it was sent."""


class ModelCommand(CommandBody, frozen=True, kw_only=True):
    """About a version that this change prepared; the path names it."""

    MAX_BYTES: ClassVar[int] = LARGE

    change: str = ""


class DeployModel(ModelCommand, frozen=True, kw_only=True):
    """A site makes its part of a version that predicts; see `app/models/deployment.py`."""

    model_id: str
    parent_version: str
    parent_digest: str
    inference_dsl: Mapping[str, Any]
    components_checkpoint: dict[str, Any] | None = None


class MigrateModel(ModelCommand, frozen=True, kw_only=True):
    """A site makes its part of a version for other parties; see `app/models/migration.py`."""

    model_id: str
    old_version: str
    old_digest: str
    role: Any = None
    migrate_role: Any = None
    migrate_initiator: str


class PublishModel(CommandBody, frozen=True, kw_only=True):
    """A step of publishing a version to a site's serving processes; the path names the version."""

    model_id: str
    digest: str  #: of what all sites of the version have in common
    load_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    step: PublishStep


class ChangeHistory(ModelCommand, frozen=True, kw_only=True):
    """A site stores a commit, or a move of a branch; see `app/models/local_history.py`.

    The path names the version: what is committed, or what the branch names from now on.
    """

    MAX_BYTES: ClassVar[int] = MIB

    model_id: str
    action: str  #: `commit`, or a `MoveKind`
    branch: str = ""
    after: str = ""  #: id of the move that is the branch's last one until now
    author_party: str
    person: str = ""  #: is sent to sites of the author's own party only
    message: str = ""
    approval: str = ""
    shares: dict[str, str] = {}  #: of a commit: site -> digest of its share
    created_ms: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class ModelDigest(CommandBody, frozen=True, kw_only=True):
    """What is the digest of the site's share of a version?"""

    model_id: str


class ModelDigestAnswer(CommandBody, frozen=True, kw_only=True):
    """The answer."""

    OPTIONAL = frozenset({"digest"})

    digest: str | None = None


class PreparedModel(CommandBody, frozen=True, kw_only=True):
    """The answer to each of them: what the site has prepared."""

    OPTIONAL = frozenset({"digest"})

    digest: str | None = None


class ReuseRequest(CommandBody, frozen=True, kw_only=True):
    """Which results may a new job take over: of tables, or of an earlier job's components."""

    initiator_role: str
    initiator_party_id: str | int
    tables: dict[str, Any]
    earlier_job: str | None = None
    components: list[str] | None = None


class ReuseAnswer(CommandBody, frozen=True, kw_only=True):
    """The answer: identities of the tables, or which components' results are there."""

    OPTIONAL = frozenset({"tables", "there"})

    tables: dict[str, Any] | None = None
    there: dict[str, Any] | None = None


class PreflightRequest(CommandBody, frozen=True, kw_only=True):
    """Could the party run these modules, given as role and name, and call back in this time?"""

    party_id: str
    initiator_role: str
    uses: list[list[Any]]
    call_back_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] | None = msgspec.field(
        default_factory=_null
    )


class PreflightAnswer(CommandBody, frozen=True, kw_only=True):
    """The answer: the steps between the parties that do not work."""

    OPTIONAL = frozenset({"objections"})

    objections: list[Any] = msgspec.field(default_factory=lambda: [])


class InitiatorParameters(CommandBody, frozen=True, kw_only=True):
    """Sections of a runtime conf that a site wants laid over those of an ended job."""

    MAX_BYTES: ClassVar[int] = LARGE

    job_parameters: Mapping[str, Any] | None = None
    component_parameters: Mapping[str, Any] | None = None


class InitiatorRerun(InitiatorParameters, frozen=True, kw_only=True):
    """A site wants an ended job to run again, or components of it."""

    component_name: str | list[str] | None = msgspec.field(default_factory=_null)
    force: Any = msgspec.field(default_factory=bool)
    failed_only: Any = msgspec.field(default_factory=bool)


class ParametersAnswer(CommandBody, frozen=True, kw_only=True):
    """The answer to `InitiatorParameters`: the sections as they are now, and what they concern."""

    OPTIONAL = frozenset({"components"})

    job_parameters: Any = msgspec.field(default_factory=_null)
    component_parameters: Any = msgspec.field(default_factory=_null)
    components: list[str] = msgspec.field(default_factory=lambda: [])


class ControlJob(CommandBody, frozen=True, kw_only=True):
    """A site wants a job to pause or to continue, then by so many steps; null: as it thinks."""

    action: str = ""
    steps: Any = msgspec.UNSET


class TaskReport(CommandBody, frozen=True, kw_only=True):
    """How a site's part of a task stands; times in ms."""

    OPTIONAL = frozenset({"reason"})

    party_status: str
    launch: Count = 0  #: of which this is told
    reason: WireReason | None = msgspec.field(default_factory=_null)
    start_time: Any = msgspec.field(default_factory=_null)
    end_time: Any = msgspec.field(default_factory=_null)
    elapsed: Any = msgspec.field(default_factory=_null)
