"""Whether another party has the same end of a job: a database may have been put back."""

from __future__ import annotations

from enum import Enum
from typing import Final

from fedflow.base.values import dataclass
from fedflow.domain.job.warning import JobWarning, warning
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, JobStatus

CODE: Final = "PartiesDisagree"  #: of the warning
_ENDS: Final = frozenset(status.value for status in JOB_FINAL)


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedSite:
    """One site of another party in a job that has ended at its initiator."""

    job_id: str
    initiator: Site
    site: Site
    status: JobStatus
    epoch: int
    may_lack: bool = False  #: nobody knows whether it ever got the job


class EndMatch(Enum):
    """What follows from how a job stands at another site."""

    AGREES = "agrees"
    BEHIND = "behind"  #: it may take the end once more
    DIFFERS = "differs"  #: nothing that this server sends changes that


def compare(share: EndedSite, *, status: str | None, epoch: int | None) -> EndMatch:
    """Return how a site's word of a job relates to its end at the initiator. `status` None: the
    site does not have it.
    """
    if status is None:
        return EndMatch.AGREES if share.may_lack else EndMatch.DIFFERS
    if epoch not in (None, share.epoch):
        return EndMatch.BEHIND if epoch < share.epoch else EndMatch.DIFFERS
    if status == share.status.value:
        return EndMatch.AGREES
    gave_up = status == JobStatus.FAILED.value  # then the initiator's word counts
    return EndMatch.BEHIND if gave_up or status not in _ENDS else EndMatch.DIFFERS


def disagreement(
    other: Site, told: str | None, told_epoch: int | None, *, status: JobStatus, epoch: int
) -> JobWarning:
    """Return what a party job says about another site that has another end of its job."""
    if told is None:
        text = (
            f"{other} does not have this job: it was deleted there, or that party's database was"
            " put back to an earlier time"
        )
    elif told_epoch in (None, epoch):
        text = f"{other} has this job as {told}, while here it ended as {status.value}"
    else:
        text = (
            f"{other} has run {told_epoch + 1} of this job as {told}, while here its last run"
            f" is {epoch + 1}, which ended as {status.value}"
        )
    return warning(CODE, other.key, text)
