"""Every thing that can go wrong, one class each.

A class has a number in its area's block (never reused), the FATE return code and HTTP status that
the doors answer with, and a hint that says what to do next. The first line of the docstring is the
message; its `{fields}` are the keyword arguments of the constructor. Blocks:

| block | area |
|---|---|
| 1000 | requests and authentication |
| 1100 | jobs and tasks |
| 1200 | DSL and runtime conf |
| 1300 | parties and transport |
| 1400 | tables and data |
| 1500 | executors |
| 1600 | data plane |
| 1700 | components |
| 1800 | settings and start-up |
| 1900 | store |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class FedflowError(Exception):
    """Something went wrong in fedflow."""

    code: ClassVar[int] = 1
    retcode: ClassVar[int] = 100  #: FATE's return code
    http: ClassVar[int] = 500  #: for doors that answer with an HTTP status
    hint: ClassVar[str] = "The server's log has the details."

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        template = (type(self).__doc__ or "").strip().splitlines()[0]
        self.message = template.format(**fields)
        super().__init__(self.message)

    @property
    def name(self) -> str:
        """Return the class name, the error's stable word."""
        return type(self).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.fields))

    def __str__(self) -> str:
        return f"{self.message} [{self.code}] {self.hint}"


def _rebuild(kind: type[FedflowError], fields: dict[str, Any]) -> FedflowError:
    return kind(**fields)


def all_errors() -> Iterator[type[FedflowError]]:
    """Yield every concrete error class, depth first."""
    stack = list(FedflowError.__subclasses__())
    while stack:
        kind = stack.pop()
        stack.extend(kind.__subclasses__())
        yield kind


# --- 1000: requests and authentication -----------------------------------------------------------


class BadRequest(FedflowError):
    """Bad request: {reason}."""

    code, retcode, http = 1001, 101, 400
    hint = "Compare the request with docs/api.md."


class MissingArgument(FedflowError):
    """required argument are missing: {names};"""  # FATE's sentence, which its clients read

    code, retcode, http = 1002, 101, 400
    hint = "Add the named members to the JSON body."


class NotAuthenticated(FedflowError):
    """The request is not authenticated: {reason}."""

    code, retcode, http = 1003, 109, 401
    hint = "Sign the request with the app key and secret that the server's conf names."


class RouteNotFound(FedflowError):
    """No route {method} {path}."""

    code, retcode, http = 1004, 100, 404
    hint = "docs/api.md lists the routes of this server."


class NotSupportedYet(FedflowError):
    """{what} is not supported by this version of fedflow."""

    code, retcode, http = 1005, 100, 501
    hint = "README.md, section 'What works', lists what this version can do."


class ClientError(FedflowError):
    """{command} failed at {address}: {reason}"""

    code, retcode, http = 1006, 100, 502
    hint = "The sentence is the server's own; `fedflow server status` tells whether it is well."


# --- 1100: jobs and tasks -----------------------------------------------------------------------


class JobNotFound(FedflowError):
    """No job {job_id} at this server."""

    code, retcode, http = 1101, 102, 404
    hint = "`fedflow job list` shows the jobs that this server knows; ids differ per deployment."


class TaskNotFound(FedflowError):
    """No task {task} at this server."""

    code, retcode, http = 1102, 101, 404
    hint = "`fedflow job query -j JOB` shows the tasks of a job."


class IllegalMove(FedflowError):
    """{machine} cannot move from {status} by {event}."""

    code, retcode, http = 1103, 100, 409
    hint = "This is a defect of fedflow: please report it with the job's log."


class StaleCommand(FedflowError):
    """The command is for {given}, but {current} is current here."""

    code, retcode, http = 1104, 10, 409
    hint = "Nothing was changed; a newer attempt or epoch has replaced this one."


class SubmitRefused(FedflowError):
    """The job was not accepted: {reason}."""

    code, retcode, http = 1105, 103, 409
    hint = "Nothing was started at any party. Mend the named cause and submit again."


class JobEnded(FedflowError):
    """Job {job_id} has ended with status {status}."""

    code, retcode, http = 1106, 103, 409
    hint = "An ended job does not change any more; submit a new one."


class NotEnoughResources(FedflowError):
    """{what} needs {need} cores, but {where} has {total} in all."""

    code, retcode, http = 1107, 103, 409
    hint = (
        "Lower task_cores or task_parallelism in job_parameters, or raise"
        " fate_on_standalone.standalone.cores_per_node in the conf."
    )


class InitiatorLost(FedflowError):
    """The initiator {site} was not heard from for {seconds} seconds."""

    code, retcode, http = 1108, 104, 504
    hint = "Check the initiator's server and the route between the parties."


class JobTimedOut(FedflowError):
    """The job ran longer than its timeout of {seconds} seconds."""

    code, retcode, http = 1109, 103, 504
    hint = "Raise job_parameters.common.timeout, or find out what it waited for with `job query`."


class WrongSite(FedflowError):
    """{site} is not a site of job {job_id}."""

    code, retcode, http = 1110, 108, 403
    hint = "Only the sites listed in the job's `role` take part in it."


class StillRunning(FedflowError):
    """Job {job_id} is still {status} after {seconds:g} seconds."""

    code, retcode, http = 1111, 106, 504
    hint = "The job goes on: `fedflow job wait` waits again, `fedflow job stop` ends it."


# --- 1200: DSL and runtime conf -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a submitted document: where (a JSON path such as `$.dsl.components.a`) and
    what.
    """

    path: str
    message: str
    rule: str  #: FATE's class name for this mistake, for example `LoopError`

    def __str__(self) -> str:
        return f"{self.path}: {self.message} ({self.rule})"


class InvalidJobSpec(FedflowError):
    """The job is not valid: {summary}"""

    code, retcode, http = 1201, 103, 400
    hint = "Correct the members at the given paths; all mistakes found are listed."

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(summary="; ".join(str(p) for p in self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return (InvalidJobSpec, (self.problems,))


# --- 1300: parties and transport ----------------------------------------------------------------


class NoRoute(FedflowError):
    """No route to party {party_id}."""

    code, retcode, http = 1301, 104, 404
    hint = (
        "Add the party with `--route PARTY=HOST:PORT` or under `routes` in conf/service_conf.yaml."
    )


class PartyUnreachable(FedflowError):
    """Party {party_id} cannot be reached at {address}: {reason}."""

    code, retcode, http = 1302, 104, 504
    hint = "Check that the party's server runs and that its gRPC port is open to this server."


class PartyRefused(FedflowError):
    """Party {party_id} refused {command}: {reason}"""

    code, retcode, http = 1303, 103, 409
    hint = "The reason is the other party's own sentence; ask its administrator."


class ForbiddenRoute(FedflowError):
    """{path} may not be called by another party."""

    code, retcode, http = 1304, 108, 403
    hint = "Only party, initiator and output-table routes are open to other parties."


class BadPacket(FedflowError):
    """The packet is not acceptable: {reason}."""

    code, retcode, http = 1305, 101, 400
    hint = "The sender's version or settings do not match; compare `fedflow server status` of both."


# --- 1400: tables and data ----------------------------------------------------------------------


class TableNotFound(FedflowError):
    """No table {namespace}.{name} at party {party_id}."""

    code, retcode, http = 1401, 101, 404
    hint = "Upload it to this party's own server with `fedflow data upload`."


class TableExists(FedflowError):
    """Table {namespace}.{name} exists already."""

    code, retcode, http = 1402, 100, 409
    hint = "Choose another name, or upload with `--drop` to replace it."


class BadTableName(FedflowError):
    """{what} {value!r} is not allowed."""

    code, retcode, http = 1403, 101, 400
    hint = "Use 1 to 100 characters without control characters."


class BadData(FedflowError):
    """{where}: {reason}."""

    code, retcode, http = 1404, 100, 400
    hint = "Correct the data and upload it again; nothing of this file was kept."


class FileNotAllowed(FedflowError):
    """The server may not read {path!r}."""

    code, retcode, http = 1405, 101, 403
    hint = "Send the file itself, or add its folder to `upload.allowed_folders` in the conf."


class NoData(FedflowError):
    """There is no data: {reason}."""

    code, retcode, http = 1406, 210, 210
    hint = "The component may have no output at this party, or has not finished."


class DiskFull(FedflowError):
    """There is no space left to write tables below {path}."""

    code, retcode, http = 1407, 100, 507
    hint = "Free space or raise the quota; nothing of the table was kept."


# --- 1500: executors ----------------------------------------------------------------------------


class ExecutorDied(FedflowError):
    """The executor of {task} died: {reason}."""

    code, retcode, http = 1501, 100, 500
    hint = (
        "`fedflow job log` shows what it printed last; a signal 9 often means that memory ran out."
    )


class ExecutorNotStarted(FedflowError):
    """The executor of {task} could not be started: {reason}."""

    code, retcode, http = 1502, 100, 500
    hint = "The server's log has the details; check free memory and process limits."


class LaunchRefused(FedflowError):
    """Launch {launch_id} of {task} was replaced or has ended."""

    code, retcode, http = 1503, 10, 409
    hint = "Another process runs this attempt; this one must exit."


class ServerRefused(FedflowError):
    """The server refused {command} with return code {retcode}: {reason}"""

    code, retcode, http = 1504, 100, 502
    hint = "The sentence is the server's own; its log has the details."


class OutOfMemory(FedflowError):
    """The executor of {task} ran out of memory ({limit})."""

    code, retcode, http = 1505, 100, 507
    hint = "Use less data, raise the executor's memory limit, or free memory on this machine."


# --- 1600: data plane ---------------------------------------------------------------------------


class PeerFailed(FedflowError):
    """{site} stopped taking part: {reason}."""

    code, retcode, http = 1601, 104, 502
    hint = "Look at the first error of that party: `fedflow job query -j JOB` at its server."


class ValueTooLate(FedflowError):
    """Waited {seconds} s for {name!r} (tag {tag!r}) from {site}."""

    code, retcode, http = 1602, 104, 504
    hint = "See the other party's log: it may be stuck. Or raise federation.receive_timeout_s."


class CodecError(FedflowError):
    """A value of another party cannot be read: {reason}."""

    code, retcode, http = 1603, 100, 400
    hint = "The value was refused before it was used; both parties must run compatible versions."


class SessionUnknown(FedflowError):
    """No data-plane session {session} here."""

    code, retcode, http = 1604, 10, 410
    hint = "The task attempt has ended or has not started at this party."


class DuplicateValue(FedflowError):
    """The value {name!r} (tag {tag!r}) for {site} was sent or read twice."""

    code, retcode, http = 1605, 100, 409
    hint = "Give each value of a component an own tag, for example the iteration number."


class SpoolFull(FedflowError):
    """The spool for values in transit is full: {used} of {limit} bytes."""

    code, retcode, http = 1606, 100, 507
    hint = "Raise federation.spool_mib in the conf, or wait until other jobs have ended."


class ServerRestarted(FedflowError):
    """The server of {site} was restarted, and values on their way to it are lost."""

    code, retcode, http = 1607, 104, 502
    hint = "Submit the job again; what had finished before the restart is not affected."


# --- 1700: components ---------------------------------------------------------------------------


class BadParameter(FedflowError):
    """{path}: {reason}."""

    code, retcode, http = 1701, 101, 400
    hint = "docs/components.md lists the parameters of each component with type and range."


class UnknownComponent(FedflowError):
    """No component module {module!r}."""

    code, retcode, http = 1702, 101, 404
    hint = "`fedflow component list` shows the modules of this server; names are as in FATE."


class ComponentFailed(FedflowError):
    """{component} failed: {reason}"""

    code, retcode, http = 1703, 100, 500
    hint = "`fedflow job log` has the traceback."


class NoCommonIds(FedflowError):
    """The parties have no sample id in common ({own} own ids)."""

    code, retcode, http = 1704, 100, 409
    hint = "Check that all parties use the same kind of id in the same spelling."


class Diverged(FedflowError):
    """Training diverged in iteration {iteration}: {reason}."""

    code, retcode, http = 1705, 100, 409
    hint = "Scale the features, or lower learning_rate."


class NotEncodable(FedflowError):
    """A number cannot be encrypted exactly: {reason}."""

    code, retcode, http = 1706, 100, 409
    hint = "Scale the data: encrypted arithmetic has a fixed range, so that nothing wraps around."


# --- 1800: settings and start-up ----------------------------------------------------------------


class BadSetting(FedflowError):
    """Setting {path}: {reason}."""

    code, retcode, http = 1801, 101, 400
    hint = "conf/service_conf.yaml explains every key."


class PortInUse(FedflowError):
    """Cannot listen on {address}: {reason}."""

    code, retcode, http = 1802, 105, 500
    hint = "Choose another port, or stop the server that uses it (`fedflow server status`)."


class HomeNotUsable(FedflowError):
    """The home folder {path} cannot be used: {reason}."""

    code, retcode, http = 1803, 100, 500
    hint = "Give a folder that this user may write to with `--home`."


class ListenerNotSafe(FedflowError):
    """{listener} would listen on {address} without {missing}."""

    code, retcode, http = 1804, 109, 500
    hint = "Configure it, bind to 127.0.0.1, or say `--insecure` if the network is trusted."


class ServerNotReachable(FedflowError):
    """No fedflow server answers at {address}: {reason}."""

    code, retcode, http = 1805, 105, 503
    hint = "Start it with `fedflow server start`, or name it with `--server` or FEDFLOW_SERVER."


class ServerNotStarted(FedflowError):
    """The server did not start: {reason}"""

    code, retcode, http = 1806, 100, 500
    hint = "`fedflow server run` with the same options shows in the foreground what is wrong."


# --- 1900: store --------------------------------------------------------------------------------


class StoreUnavailable(FedflowError):
    """The store cannot be used: {reason}."""

    code, retcode, http = 1901, 105, 503
    hint = "Check the `database` settings and that the database server runs."


class SchemaTooNew(FedflowError):
    """The store has schema {found}, this fedflow knows up to {known}."""

    code, retcode, http = 1902, 100, 500
    hint = "A newer fedflow has used this store; upgrade this server."
