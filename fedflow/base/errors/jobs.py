"""Errors 1100: jobs and tasks."""

from __future__ import annotations

from typing import Any

from fedflow.base.errors.error import FedflowError


class JobNotFound(FedflowError):
    """No job {job_id} at this server."""

    code, retcode, http = 1101, 102, 404
    public = ("job_id",)
    hint = "`fedflow job list` shows the jobs that this server knows; ids differ per deployment."


class TaskNotFound(FedflowError):
    """No task {task} at this server."""

    code, retcode, http = 1102, 101, 404
    public = ("task",)
    hint = "`fedflow job query -j JOB` shows the tasks of a job."


class IllegalMove(FedflowError):
    """{machine} cannot move from {status} by {event}."""

    code, retcode, http = 1103, 100, 409
    public = ("machine", "status", "event")
    hint = "This is a defect of fedflow: please report it with the job's log."


class StaleCommand(FedflowError):
    """The command is for {given}, but {current} is current at this server."""

    code, retcode, http = 1104, 10, 409
    public = ("given", "current")
    hint = "Nothing was changed; a newer attempt or epoch has replaced this one."


class SubmitRefused(FedflowError):
    """The job was not accepted: {reason}."""

    code, retcode, http = 1105, 103, 409
    public = ("reason",)
    hint = "Nothing was started at any party. Fix the cause named above and submit again."


class JobEnded(FedflowError):
    """Job {job_id} has ended with status {status}."""

    code, retcode, http = 1106, 103, 409
    public = ("job_id", "status")
    hint = "An ended job does not change any more; submit a new one."


class NotEnoughResources(FedflowError):
    """{what} = {need}; {where} has {total}. Request less, or raise {key} at that party."""

    code, retcode, http = 1107, 103, 409
    public = ("what", "need", "where", "total", "key")
    hint = "`fedflow resource query` at that party shows what its engine has."


class Reserved(FedflowError):
    """{need} at {where} are reserved for job {job_id}, which has waited for {seconds} seconds."""

    code, retcode, http = 1119, 103, 409
    public = ("need", "where", "seconds")
    hint = "The job requests them again by itself. `fedflow queue list` shows the order of jobs."


class InitiatorLost(FedflowError):
    """The initiator {site} has been silent for {seconds} seconds."""

    code, retcode, http = 1108, 104, 504
    public = ("site", "seconds")
    hint = "Check the initiator's server and the route between the parties."


class JobTimedOut(FedflowError):
    """The job ran longer than its timeout of {seconds} seconds."""

    code, retcode, http = 1109, 103, 504
    public = ("seconds",)
    hint = "Raise job_parameters.common.timeout, or see what it waited for: `fedflow job events`."


class WrongSite(FedflowError):
    """{site} is not a site of job {job_id}."""

    code, retcode, http = 1110, 108, 403
    public = ("site", "job_id")
    hint = "Only the sites listed in the job's `role` take part in it."


class StillRunning(FedflowError):
    """Job {job_id} is still {status} after {seconds:g} seconds."""

    code, retcode, http = 1111, 106, 504
    public = ("job_id", "status", "seconds")
    hint = "The job goes on: `fedflow job wait` waits again, `fedflow job stop` ends it."


class RerunRefused(FedflowError):
    """Job {job_id} cannot be run again: {reason}."""

    code, retcode, http = 1112, 103, 409
    public = ("job_id", "reason")
    hint = "`fedflow job query` shows how it is now; `fedflow job submit` makes a new job."


class StillEnding(FedflowError):
    """Processes of job {job_id} are still being stopped at {site}."""

    code, retcode, http = 1113, 106, 409
    public = ("job_id", "site")
    hint = "It takes a few seconds at most; the command is sent again by itself."


class OutputGone(FedflowError):
    """The output of {component} in job {job_id} no longer exists at {site}."""

    code, retcode, http = 1114, 103, 409
    public = ("component", "job_id", "site")
    hint = "Run that component again, too: name it in the rerun, with force."


class InheritanceRefused(FedflowError):
    """Results of job {earlier_job} cannot be inherited: {reason}."""

    code, retcode, http = 1115, 103, 409
    public = ("earlier_job", "reason")
    hint = "Leave the component out of inheritance_info.component_list, so that it runs."


class ParametersRefused(FedflowError):
    """The parameters of job {job_id} cannot be changed: {reason}."""

    code, retcode, http = 1116, 103, 409
    public = ("job_id", "reason", "parties")
    hint = "Only a job that has ended takes new parameters, and all its sites must accept them."

    @property
    def data(self) -> Any:
        """Return the retcode of every site, if the sites were called."""
        return self.fields.get("parties")


class JobFilesNotWritten(FedflowError):
    """The files of a job cannot be written below {path}: {reason}."""

    code, retcode, http = 1117, 103, 507
    hint = "Free space in the server's home folder, and check that the server may write to it."


class TaskTimedOut(FedflowError):
    """{component} has run for {seconds} seconds, and its timeout is {limit} seconds."""

    code, retcode, http = 1135, 103, 409
    public = ("component", "seconds", "limit")
    hint = "Raise job_parameters.common.task_conf.<component>.timeout, or see what it waits for."


class HeldTooLong(FedflowError):
    """The job was paused, or waited for its next step, for more than {hours} hours."""

    code, retcode, http = 1131, 103, 409
    public = ("hours",)
    hint = "Run it again. scheduling.hold_limit_s in the conf limits how long a job may be paused."


class PauseRefused(FedflowError):
    """Job {job_id} was not paused: {reason}."""

    code, retcode, http = 1132, 103, 409
    public = ("job_id", "reason")
    hint = "Only a job that has not ended, and is not paused already, can be paused."


class ContinueRefused(FedflowError):
    """Job {job_id} does not continue: {reason}."""

    code, retcode, http = 1133, 103, 409
    public = ("job_id", "reason")
    hint = "Only a job that is paused, or waits for its next step, can be continued."


class BadSteps(FedflowError):
    """{given} is not a valid number of steps: {reason}."""

    code, retcode, http = 1134, 101, 400
    public = ("given", "reason")
    hint = "Give a whole number from 1 to 1000000, or `all` to run everything that is left."


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
    """The idempotency key {key!r} belongs to job {earlier_job}, whose DSL or conf differs."""

    code, retcode, http = 1130, 103, 409
    hint = "Use another key for another job. A repeated submit must have the same DSL and conf."


class LogNotHere(FedflowError):
    """This server has no such log: {reason}."""

    code, retcode, http = 1138, 210, 404
    hint = "Each party's server has its own logs. `fedflow job explain` says what happened."


class ChangeNotAllowed(FedflowError):
    """{site} may change no more than parameters of its own components, so not {path}."""

    code, retcode, http = 1139, 108, 403
    public = ("site", "path")
    hint = (
        "Ask a person at the initiator to change it. Without new parameters the job can run again."
    )


class JobTooLarge(FedflowError):
    """DSL and conf of the job have {kib} KiB together; party {party_id} takes {max_kib} KiB."""

    code, retcode, http = 1150, 103, 413
    public = ("kib", "party_id", "max_kib")
    hint = (
        "Give parameters that are the same at many sites once, in `common`. `jobs.max_kib` in a "
        "server's conf limits what it takes."
    )


class QuotaReached(FedflowError):
    """Party {party_id} takes no more jobs of party {initiator} now: {reason}."""

    code, retcode, http = 1151, 103, 429
    public = ("party_id", "initiator", "reason")
    hint = (
        "Wait until some jobs have ended, or ask that party's administrator: old jobs can be "
        "deleted, and `jobs.open_per_party` and `jobs.stored_mib_per_party` in its conf raised."
    )


class DiskTooFull(FedflowError):
    """Party {party_id} takes no new jobs: less than {mib} MiB of its server's disk are free."""

    code, retcode, http = 1152, 103, 507
    public = ("party_id", "mib")
    hint = "Its administrator frees space; `health.min_free_mib` in its conf is the limit."


class StillBusy(FedflowError):
    """This server works on other large commands of party {party_id}; it takes this one later."""

    code, retcode, http = 1153, 106, 503
    public = ("party_id",)
    hint = "The sender repeats it by itself. Submit very large jobs one after the other."


class TooFewParties(FedflowError):
    """{left} of {needed} parties needed are left: {site} is lost ({reason})."""

    code, retcode, http = 1154, 100, 409
    public = ("left", "needed", "site")
    hint = "Look why the parties went away, or run the job again with a smaller min_parties."


class PartyAbsent(FedflowError):
    """{site} is absent: {reason}."""

    code, retcode, http = 1155, 100, 409
    public = ("site",)
    hint = "The job goes on without it. With `rejoin` it is started again when it is heard from."
