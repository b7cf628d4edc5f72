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
| 2000 | models |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from fedflow.base.values import dataclass


class FedflowError(Exception):
    """Something went wrong in fedflow."""

    code: ClassVar[int] = 1
    retcode: ClassVar[int] = 100  #: FATE's return code
    http: ClassVar[int] = 500  #: for doors that answer with an HTTP status
    hint: ClassVar[str] = "The server's log has the details."

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.message = self.template().format(**fields)
        super().__init__(self.message)

    @classmethod
    def template(cls) -> str:
        """Return the sentence of all errors of this class, with its fields in braces."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    @classmethod
    def repeated(cls, message: str) -> Self:
        """Return an error that another process told by its sentence: its fields are not known."""
        error = cls.__new__(cls)
        error.fields, error.message = {}, message
        Exception.__init__(error, message)
        return error

    @property
    def name(self) -> str:
        """Return the class name, the error's stable word."""
        return type(self).__name__

    @property
    def data(self) -> Any:
        """Return what the doors answer as `data` beside the error; None is nothing."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.fields, self.message))

    def __str__(self) -> str:
        return f"{self.message} [{self.code}] {self.hint}"


def _rebuild(kind: type[FedflowError], fields: dict[str, Any], message: str) -> FedflowError:
    return kind(**fields) if fields else kind.repeated(message)


def repeated_error(name: str, message: str) -> FedflowError | None:
    """Return an error of the class `name` with a sentence; None if there is no such class, or one
    that holds more than a sentence.
    """
    kind = next((kind for kind in all_errors() if kind.__name__ == name), None)
    if kind is None or kind.__init__ is not FedflowError.__init__:
        return None
    return kind.repeated(message)


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
    hint = "docs/features.md lists what this version can do."


class ClientError(FedflowError):
    """{command} failed at {address}: {reason}"""

    code, retcode, http = 1006, 100, 502
    hint = "The sentence is the server's own; `fedflow server status` tells whether it is well."


class PermissionDenied(FedflowError):
    """Party {party_id} may not use {what} here."""

    code, retcode, http = 1020, 108, 403
    hint = "The party that refused grants it with `permission/grant`, if it wants to."

    @property
    def data(self) -> Any:
        """Return FATE's form: code 1 role, 2 component, 3 dataset."""
        return {"code": self.fields["kind"], "message": self.message}


class PermissionsOff(FedflowError):
    """This server checks no permissions."""

    code, retcode, http = 1021, 100, 409
    hint = "Set permission.switch in the conf, and permission.component or permission.dataset."


class BadKey(FedflowError):
    """That is no public key which can be used: {reason}."""

    code, retcode, http = 1022, 101, 400
    hint = "Send the RSA public key of the other party as PEM text, at least 2048 bits."


class PrivateKeyKept(FedflowError):
    """The private key of this party is not given away."""

    code, retcode, http = 1023, 108, 403
    hint = "Other parties need the public key only: ask with key_name `public`."


class BadAddress(FedflowError):
    """{what} cannot be used: {reason}."""

    code, retcode, http = 1024, 103, 400
    hint = "Give a host name or address, a port from 1 to 65535, and http or https."


class ServerNotListed(FedflowError):
    """No server {name} is listed in this server's conf."""

    code, retcode, http = 1025, 404, 404
    hint = "Requests are passed on only to addresses below `servers` in conf/service_conf.yaml."


class ServerCallFailed(FedflowError):
    """The server {name} did not answer: {reason}."""

    code, retcode, http = 1026, 105, 502
    hint = "Check that it runs where `servers` in the conf says."


class NotSigned(FedflowError):
    """The call of party {party_id} is not authenticated: {reason}."""

    code, retcode, http = 1029, 109, 401
    hint = "Exchange public keys: `key/query` at one server, `key/public/save` at the other."


class UnknownGrant(FedflowError):
    """No {what} {name} to grant."""

    code, retcode, http = 1028, 100, 404
    hint = "`component/get` lists the components; roles are guest, host, arbiter."


class ReloadRefused(FedflowError):
    """The settings were not reloaded: {reason}."""

    code, retcode, http = 1027, 100, 409
    hint = "The server goes on with the settings that it has."


class BadDocument(FedflowError):
    """{where}: {reason}."""

    code, retcode, http = 1040, 101, 400
    hint = "Nothing was sent; correct the file or the command, and repeat it."


class BadClientConf(FedflowError):
    """The stored settings {path} cannot be used: {reason}."""

    code, retcode, http = 1041, 101, 400
    hint = "`flow init --reset` removes them, `flow init --ip HOST --port PORT` writes them again."


class SignInRefused(FedflowError):
    """The name or the password is wrong."""

    code, retcode, http = 1050, 109, 401
    hint = "An admin can set a new password: `fedflow board user password NAME`."


class SignInLater(FedflowError):
    """Too many attempts to sign in."""

    code, retcode, http = 1051, 109, 429
    hint = "Wait a few minutes. Who is signed in already is not concerned."


class NotSignedIn(FedflowError):
    """Nobody is signed in here, or the session has ended."""

    code, retcode, http = 1052, 109, 401
    hint = "Sign in again."


class RoleNeeded(FedflowError):
    """That needs the role {needed}; yours is {role}."""

    code, retcode, http = 1053, 108, 403
    hint = "An admin of this server can give you another role."


class AccountNotFound(FedflowError):
    """There is no account {name}."""

    code, retcode, http = 1054, 101, 404
    hint = "`fedflow board user list` shows the accounts."


class AccountExists(FedflowError):
    """There is an account {name} already."""

    code, retcode, http = 1055, 101, 409
    hint = "`fedflow board user role` and `user password` change it."


class BadAccount(FedflowError):
    """{what} cannot be used: {reason}."""

    code, retcode, http = 1056, 101, 400
    hint = "docs/security.md, section 'The board', has the rules."


class FormRefused(FedflowError):
    """The request was refused: {reason}."""

    code, retcode, http = 1057, 108, 403
    hint = "Load the page again, then repeat what you did."


class HostRefused(FedflowError):
    """The board does not answer under the name {host}."""

    code, retcode, http = 1058, 108, 403
    hint = "Call it by its address, or name it in `board.host_names` of the conf."


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
    hint = "Nothing was started at any party. Fix the cause named above and submit again."


class JobEnded(FedflowError):
    """Job {job_id} has ended with status {status}."""

    code, retcode, http = 1106, 103, 409
    hint = "An ended job does not change any more; submit a new one."


class NotEnoughResources(FedflowError):
    """{what} = {need}; {where} has {total}: lower one, or raise {key} there."""

    code, retcode, http = 1107, 103, 409
    hint = "`fedflow resource query` at that party shows what its engine has."


class Reserved(FedflowError):
    """{need} at {where} are kept for job {job_id}, which has waited for {seconds} seconds."""

    code, retcode, http = 1119, 103, 409
    hint = "The job asks again by itself. `fedflow queue list` shows who goes first."


class InitiatorLost(FedflowError):
    """The initiator {site} was not heard from for {seconds} seconds."""

    code, retcode, http = 1108, 104, 504
    hint = "Check the initiator's server and the route between the parties."


class JobTimedOut(FedflowError):
    """The job ran longer than its timeout of {seconds} seconds."""

    code, retcode, http = 1109, 103, 504
    hint = "Raise job_parameters.common.timeout, or see what it waited for: `fedflow job events`."


class WrongSite(FedflowError):
    """{site} is not a site of job {job_id}."""

    code, retcode, http = 1110, 108, 403
    hint = "Only the sites listed in the job's `role` take part in it."


class StillRunning(FedflowError):
    """Job {job_id} is still {status} after {seconds:g} seconds."""

    code, retcode, http = 1111, 106, 504
    hint = "The job goes on: `fedflow job wait` waits again, `fedflow job stop` ends it."


class RerunRefused(FedflowError):
    """Job {job_id} cannot be run again: {reason}."""

    code, retcode, http = 1112, 103, 409
    hint = "docs/jobs.md says what a rerun repeats, when, and what a refusal leaves."


class StillEnding(FedflowError):
    """Processes of job {job_id} are still being stopped at {site}."""

    code, retcode, http = 1113, 106, 409
    hint = "It takes a few seconds at most; the command is sent again by itself."


class OutputGone(FedflowError):
    """The output of {component} in job {job_id} is gone at {site}."""

    code, retcode, http = 1114, 103, 409
    hint = "Run that component again too: name it, with force."


class InheritanceRefused(FedflowError):
    """Results of job {earlier_job} cannot be taken over: {reason}."""

    code, retcode, http = 1115, 103, 409
    hint = "Leave the component out of inheritance_info.component_list, so that it runs."


class ParametersRefused(FedflowError):
    """The parameters of job {job_id} cannot be changed: {reason}."""

    code, retcode, http = 1116, 103, 409
    hint = "Only a job that has ended takes new parameters, and all its sites must accept them."

    @property
    def data(self) -> Any:
        """Return the retcode of every site, if it came to asking them."""
        return self.fields.get("parties")


class JobFilesNotWritten(FedflowError):
    """The files of a job cannot be written below {path}: {reason}."""

    code, retcode, http = 1117, 103, 507
    hint = "Free space below the server's home folder, and see that the server may write there."


class TaskTimedOut(FedflowError):
    """{component} has run for {seconds} seconds, and its timeout is {limit} seconds."""

    code, retcode, http = 1135, 103, 409
    hint = "Raise job_parameters.common.task_conf.<component>.timeout, or see what it waits for."


class HeldTooLong(FedflowError):
    """The job was held for more than {hours} hours, and nobody let it go on."""

    code, retcode, http = 1131, 103, 409
    hint = "Run it again; scheduling.hold_limit_s in the conf says how long a job may be held."


class PauseRefused(FedflowError):
    """Job {job_id} was not paused: {reason}."""

    code, retcode, http = 1132, 103, 409
    hint = "Only a job that has not ended, and is not paused already, can be paused."


class ContinueRefused(FedflowError):
    """Job {job_id} does not continue: {reason}."""

    code, retcode, http = 1133, 103, 409
    hint = "Only a job that is paused, or waits for its next step, can be continued."


class BadSteps(FedflowError):
    """{given} is no number of steps: {reason}."""

    code, retcode, http = 1134, 101, 400
    hint = "Give a whole number from 1 to 1000000, or let all go on (`all`)."


class CleaningRefused(FedflowError):
    """Job {job_id} cannot be cleaned: {reason}."""

    code, retcode, http = 1118, 103, 409
    hint = "Stop the job, or wait for its end."


class DeleteRefused(FedflowError):
    """Job {job_id} cannot be deleted: {reason}."""

    code, retcode, http = 1136, 103, 409
    hint = "Only a job that has ended, and that no other job waits for, can be deleted."


class JobFilesNotDeleted(FedflowError):
    """Job {job_id} is deleted, but {path} is still there: {reason}."""

    code, retcode, http = 1137, 100, 500
    hint = "Fix the cause named above, then delete the job once more: that removes what is left."


class IdempotencyKeyReused(FedflowError):
    """The idempotency key {key!r} stands for job {earlier_job}, which was submitted otherwise."""

    code, retcode, http = 1130, 103, 409
    hint = "Give another job another key; a repeated submit must be the same DSL and conf."


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
        return (type(self), (self.problems,))


class PredictDslNotMade(InvalidJobSpec):
    """The predict DSL cannot be made: {summary}"""

    code, retcode, http = 1202, 210, 210  # FATE's status for what it cannot send
    hint = "Correct the training DSL, and name components that it has."


class NotASite(FedflowError):
    """{site} is not a site of this job."""

    code, retcode, http = 1203, 101, 404
    hint = "Name a role and a party id that the job's conf lists."


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


class IncompatibleVersions(FedflowError):
    """Party {party_id} speaks {theirs}, this server {ours}: they have none in common."""

    code, retcode, http = 1306, 107, 409
    hint = "Upgrade the older server: each release works with the one before it."


class PartyTooOld(FedflowError):
    """Party {party_id} speaks {theirs}, which has no `{command}`; protocol {needed} has it."""

    code, retcode, http = 1307, 107, 409
    hint = "Upgrade that party's server, or ask its administrator to do it there."


class PartiesNotReady(FedflowError):
    """The job was not accepted: {reason}."""

    code, retcode, http = 1308, 103, 409
    hint = "Nothing was started at any party. `fedflow party ping PARTY` tries one party both ways."

    @property
    def data(self) -> Any:
        """Return every broken hop: from, to, and why."""
        return self.fields.get("hops")


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
    hint = "Correct the data, or what the parameters say of them; nothing was kept of it."


class FileNotAllowed(FedflowError):
    """The server may not read {path!r}."""

    code, retcode, http = 1405, 101, 403
    hint = (
        "Send the file itself, or add its folder to `upload.allowed_folders` in the conf (of files"
        " that are bound also `storage.allowed_folders`)."
    )


class NoData(FedflowError):
    """There is no data: {reason}."""

    code, retcode, http = 1406, 210, 210
    hint = "The component may have no output at this party, or has not finished."


class DiskFull(FedflowError):
    """There is no space left to write tables below {path}."""

    code, retcode, http = 1407, 100, 507
    hint = "Free space or raise the quota; nothing of the table was kept."


class TableDisabled(FedflowError):
    """Table {namespace}.{name} is disabled at party {party_id}."""

    code, retcode, http = 1408, 101, 409
    hint = "Its party can enable it with `/v1/table/enable`."


class ConnectorNotFound(FedflowError):
    """No connector {name!r} at this server."""

    code, retcode, http = 1409, 101, 404
    hint = "Make it with `/v1/table/connector/create`."


class PlaceNotAllowed(FedflowError):
    """The server may not write {path!r}: {reason}."""

    code, retcode, http = 1410, 101, 403
    hint = (
        "Give a plain file name, which is put into the folder `downloads` of the server's home, or"
        " add the folder to `download.allowed_folders` in the conf."
    )


class TableNotTracked(FedflowError):
    """No job is known here that made or read table {namespace}.{name}."""

    code, retcode, http = 1411, 100, 404
    hint = "Provenance is known of tables that jobs of this server made or read."


class ColumnsFixed(FedflowError):
    """The columns of table {namespace}.{name} cannot be changed: {reason}."""

    code, retcode, http = 1412, 101, 409
    hint = "Upload the rows again under the new names, or change members beside the column names."


class TablesNotShared(FedflowError):
    """The files that Spark's workers wrote below {uri} are not seen by this server."""

    code, retcode, http = 1413, 100, 500
    hint = "fate_on_spark.spark.tables_uri must name a folder that server and workers both reach."


class BadStorage(FedflowError):
    """{path}: {reason}."""

    code, retcode, http = 1416, 100, 400
    hint = "docs/storages.md lists the members of each storage engine's address."


class StorageNotAllowed(FedflowError):
    """This server may not reach {place}: `{setting}` in its conf does not name it."""

    code, retcode, http = 1417, 101, 403
    hint = "The administrator of this server can allow the place in its conf; see docs/storages.md."


class QueryNotAllowed(FedflowError):
    """{path}: the query is not allowed: {reason}."""

    code, retcode, http = 1418, 100, 400
    hint = "A bound table is one SELECT without comments; make a view of what needs more than that."


class ConnectorMismatch(FedflowError):
    """{path}: the address and connector {name!r} do not go together: {reason}."""

    code, retcode, http = 1419, 100, 400
    hint = "A connector says host and credentials, the address what is read there."


class ConnectorInUse(FedflowError):
    """Connector {name!r} is used by {count} tables, {namespace}.{table} is one of them."""

    code, retcode, http = 1420, 100, 409
    hint = "Delete these tables first; to change a connector, create it anew under its name."


class SecretUnreadable(FedflowError):
    """The credentials of connector {name!r} cannot be decrypted."""

    code, retcode, http = 1421, 100, 500
    hint = "The key in `keys/connectors.key` is not the one that encrypted them: restore that file."


class BoundTableRefused(FedflowError):
    """Table {namespace}.{name} cannot be read: {reason}."""

    code, retcode, http = 1422, 101, 409
    hint = "The log of its party's server says more; other parties are not told where it lies."


class StorageUnreachable(FedflowError):
    """{where} cannot be reached: {reason}."""

    code, retcode, http = 1430, 100, 502
    hint = "Check its address and that it runs; nothing was kept of what was read before."


class StorageRefused(FedflowError):
    """{where} refuses the access: {reason}."""

    code, retcode, http = 1431, 101, 403
    hint = "Correct the credentials of its connector, or let its administrator grant the access."


class StorageMissing(FedflowError):
    """{where} is not there: {reason}."""

    code, retcode, http = 1432, 101, 404
    hint = "Correct the address with `fedflow table bind --drop`, or restore what was there."


class BoundTableChanged(FedflowError):
    """{where} is not what was bound: {reason}."""

    code, retcode, http = 1433, 101, 409
    hint = "Bind it again with `fedflow table bind --drop`, so that jobs see its columns."


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


class ServerLost(FedflowError):
    """The server that ran {task} is not there any more: {reason}."""

    code, retcode, http = 1506, 100, 502
    hint = "`fedflow server list` shows this party's servers; the task is tried again at another."


class JavaMissing(FedflowError):
    """Spark cannot run here, since there is no Java for it: {reason}."""

    code, retcode, http = 1507, 100, 500
    hint = "Install Java 17 or newer at the server, or set JAVA_HOME where the server is started."


class SparkMissing(FedflowError):
    """There is no usable Spark at this server: {reason}."""

    code, retcode, http = 1508, 100, 500
    hint = "Install `fedflow[spark]`, or correct SPARK_HOME or fate_on_spark.spark.home."


class SparkMasterUnreachable(FedflowError):
    """The Spark master does not answer: {reason}."""

    code, retcode, http = 1509, 100, 502
    hint = "Check that it runs, and fate_on_spark.spark.master in the conf of that party's server."


class SparkNotStarted(FedflowError):
    """The Spark application could not be started: {reason}."""

    code, retcode, http = 1510, 100, 500
    hint = "spark.log among the job's logs has all that Spark said; options come from `spark_run`."


class SparkExecutorsMissing(FedflowError):
    """Spark gave {there} of {wanted} executors within {seconds} s."""

    code, retcode, http = 1511, 100, 503
    hint = "Ask for less in `spark_run`, free the cluster, or raise fate_on_spark.spark.wait_s."


class SparkLost(FedflowError):
    """The Spark application of job {job_id} is gone: {reason}."""

    code, retcode, http = 1512, 100, 502
    hint = "spark.log among the job's logs says why; a driver out of memory needs `driver-memory`."


class SparkFailed(FedflowError):
    """A Spark job of the task failed: {reason}."""

    code, retcode, http = 1513, 100, 500
    hint = "The task's log at this party has Spark's own message with the executor's traceback."


class SparkWorkersDiffer(FedflowError):
    """Spark's workers cannot run fedflow: {reason}."""

    code, retcode, http = 1514, 100, 500
    hint = "Their Python (fate_on_spark.spark.python) needs this release of fedflow with `[ml]`."


class EngineMissing(FedflowError):
    """{path}: {engine} is not an engine of {where}."""

    code, retcode, http = 1521, 103, 409
    hint = (
        "Leave it out or say STANDALONE for that party; its administrator names a Spark cluster "
        "with fate_on_spark.spark.master."
    )


class SparkOptionRefused(FedflowError):
    """{path}: {reason}."""

    code, retcode, http = 1515, 101, 400
    hint = "docs/spark.md lists what a job may set; a party's administrator may allow more."


class SparkClusterFailed(FedflowError):
    """The Spark cluster of this machine does not start: {reason}."""

    code, retcode, http = 1520, 100, 500
    hint = "It needs Java 17 and the package `fedflow[spark]`, or a Spark folder in SPARK_HOME."


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

    def __init__(self, *, more: Sequence[tuple[str, str]] = (), **fields: Any) -> None:
        """`more` are further mistakes, each (path, reason); the message lists all."""
        path, reason = fields["path"], str(fields["reason"])
        self.mistakes = ((str(path), reason), *more)
        listed = "; ".join([reason, *(f"{where}: {what}" for where, what in more)])
        super().__init__(**{**fields, "reason": listed})


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


class CacheNotFound(FedflowError):
    """{found} caches at {site} fit {what}, exactly one is needed."""

    code, retcode, http = 1707, 101, 404
    hint = "Name the job and component that made it (Intersection with run_cache), or its key."


class ProviderRefused(FedflowError):
    """The provider {provider} cannot be used: {reason}."""

    code, retcode, http = 1708, 103, 400
    hint = "docs/write-a-component.md says what a provider folder holds and how it is registered."


# --- 1800: settings and start-up ----------------------------------------------------------------


class BadSetting(FedflowError):
    """Setting {path}: {reason}."""

    code, retcode, http = 1801, 101, 400
    hint = "conf/service_conf.yaml explains every key; docs/migration.md, what becomes of FATE's."


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


class NotLeading(FedflowError):
    """This server does not lead the servers of its party: {reason}."""

    code, retcode, http = 1807, 105, 503
    hint = "Another server of the party takes over within seconds; `fedflow server list` shows it."


class SharedHomeDiffers(FedflowError):
    """Shared folders differ: {folder} is not the one that server {server} of this party uses."""

    code, retcode, http = 1808, 100, 500
    hint = (
        "Let `shared_home` be one common folder, for example on NFS, in the conf of every server."
    )


class NoOtherServer(FedflowError):
    """This server cannot hand over: no other server of its party is up."""

    code, retcode, http = 1809, 103, 409
    hint = (
        "Start another one with the same database and `shared_home`; or just stop this one, "
        "its executors live on until it is started again."
    )


# --- 1900: store --------------------------------------------------------------------------------


class StoreUnavailable(FedflowError):
    """The store cannot be used: {reason}."""

    code, retcode, http = 1901, 105, 503
    hint = "Check the `database` settings and that the database server runs."


class SchemaTooNew(FedflowError):
    """The store has schema {found}, this fedflow knows up to {known}."""

    code, retcode, http = 1902, 100, 500
    hint = "A newer fedflow has used this store; upgrade this server."


# --- 2000: models -------------------------------------------------------------------------------


class ModelNotFound(FedflowError):
    """There is no {model} here."""

    code, retcode, http = 2001, 100, 404
    hint = "`model/query` shows the models of this server; each party's share is at its own server."


class ModelDamaged(FedflowError):
    """{model} is damaged: {reason}."""

    code, retcode, http = 2002, 100, 500
    hint = "Do not use it. Import an export, restore it from the model store, or train again."


class BlobDamaged(FedflowError):
    """The stored contents {sha256} are damaged: {reason}."""

    code, retcode, http = 2003, 100, 500
    hint = "The files below `models/blobs` in the server's home must not be changed or deleted."


class ModelExists(FedflowError):
    """{model} exists already."""

    code, retcode, http = 2004, 100, 409
    hint = "Pass force_update 1 to replace it."


class BadModelArchive(FedflowError):
    """The model archive is refused: {reason}."""

    code, retcode, http = 2005, 101, 400
    hint = "Send a zip that `model/export` made, with the ids that it was exported under."


class ModelComponentNotFound(FedflowError):
    """{model} has no model of component {component}."""

    code, retcode, http = 2006, 100, 404
    hint = "`model/query/detail` lists the components; only those that wrote a model have one."


class CheckpointNotFound(FedflowError):
    """{component} has no checkpoint {step} in {model}."""

    code, retcode, http = 2007, 100, 404
    hint = "`checkpoint/list` shows the steps that there are."


class CheckpointRefused(FedflowError):
    """{component} cannot store a checkpoint: {reason}."""

    code, retcode, http = 2008, 100, 409
    hint = "Checkpoints are of training jobs, one per step, within the limits of the SDK."


class TagNotFound(FedflowError):
    """There is no tag {tag_name}, or the model does not have it."""

    code, retcode, http = 2009, 100, 404
    hint = "`model/tag/list` shows the tags."


class TagExists(FedflowError):
    """The tag {tag_name} exists already, or the model has it already."""

    code, retcode, http = 2010, 100, 409
    hint = "Choose another name, or use the tag that there is."


class ModelStoreNotSet(FedflowError):
    """This server has no external model store."""

    code, retcode, http = 2011, 100, 503
    hint = "Set `model_store_address` in conf/service_conf.yaml."


class ModelStoreUnavailable(FedflowError):
    """The external model store cannot be used: {reason}."""

    code, retcode, http = 2012, 100, 503
    hint = "Check `model_store_address` and that the store runs."


class WrongWoeArrays(FedflowError):
    """The weights of evidence of {component} cannot be used: {reason}."""

    code, retcode, http = 2013, 101, 400
    hint = "Extract them from the guest's share of a binning and merge them into its host's share."


class ModelNotDeployed(FedflowError):
    """The {model} was trained, but not deployed."""

    code, retcode, http = 2030, 100, 409
    hint = "Deploy it with `model/deploy` and use the model_version that its answer names."


class ModelIsDeployed(FedflowError):
    """The {model} was deployed from version {parent} and cannot be deployed again."""

    code, retcode, http = 2031, 101, 409
    hint = "Deploy the version that was trained, as often as you like."


class ModelChangeRefused(FedflowError):
    """The version was not made: {reason}."""

    code, retcode, http = 2032, 101, 409
    hint = "No party has the new version. Fix the cause named above and ask again."


class ModelsDiffer(FedflowError):
    """{site} has another model under this name: {what} differs."""

    code, retcode, http = 2033, 100, 409
    hint = "Compare `model/query` at both parties; import or restore the right share."


class WrongModelSource(FedflowError):
    """Party {party_id} may not {what}."""

    code, retcode, http = 2034, 108, 403
    hint = "Only the server of the model's initiator does that; ask there."


class NotModelInitiator(FedflowError):
    """This server does not hold the initiator's share of {model}."""

    code, retcode, http = 2035, 101, 409
    hint = "Ask the server of the party that trained the model: `model/query` names it."


class NoPredictDsl(FedflowError):
    """There is no predict DSL: {reason}."""

    code, retcode, http = 2036, 210, 210
    hint = "Deploy the model, and ask with the model_version that the answer of the deploy names."


class ModelNotReady(FedflowError):
    """The job that trains {model} has not ended yet."""

    code, retcode, http = 2039, 106, 409
    hint = "Ask again when `job/query` shows the job's end at all parties."


class SameParties(FedflowError):
    """The new parties are those that the model has."""

    code, retcode, http = 2038, 100, 409
    hint = "Give other party ids in `migrate_role`, one for each of `role`."


class NotPredictable(FedflowError):
    """The predict job cannot use {model}: {reason}."""

    code, retcode, http = 2037, 103, 409
    hint = "`model/get/predict/conf` gives a conf that fits the model."
