"""The phases of a site of a job, from its creation to its end."""

from __future__ import annotations

from enum import StrEnum


class SitePhase(StrEnum):
    """How far a job has come at one site, as the initiator knows it."""

    CREATING = "creating"  #: the create command is on its way
    CREATED = "created"  #: accepted; holds no cores
    REFUSED = "refused"  #: not accepted
    APPLYING = "applying"  #: cores were asked for
    GRANTED = "granted"  #: cores are held
    DENIED = "denied"  #: no cores now; asked again at `retry_ms`
    ABSENT = "absent"  #: of an elastic job: left out; asked to come back at `retry_ms`
    GONE = "gone"  #: the site has given the job up, or is lost
