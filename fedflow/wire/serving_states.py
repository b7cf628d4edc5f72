"""What the admin port of a serving process answers, as the Flow server reads it.

Members that are not known here are passed over, so a newer process is read, too. Source:
docs/serving.md, "Admin port".
"""

from __future__ import annotations

from typing import Any

import msgspec


class ServedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A share that is loaded, or was refused."""

    role: str
    party_id: str
    model_id: str
    model_version: str
    status: str  #: loaded or refused
    reason: str = ""  #: why it was refused
    inputs: list[str] = []  #: columns that rows should have
    texts: list[str] = []  #: those of text
    hosts: list[str] = []  #: parties that are asked for their part
    answers_callers: bool | None = None  #: None: an older process, where a guest does


class SplitPart(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a service, and how many of the users it answers, percent."""

    model_id: str
    model_version: str
    weight: float = 0.0
    shadow: bool = False  #: it answers nobody; its scores are compared


class ServiceRelease(msgspec.Struct, frozen=True, kw_only=True):
    """What answered for a service from some time on."""

    bound_ms: int
    versions: list[SplitPart] = []
    current: bool = False


class ServiceSplit(msgspec.Struct, frozen=True, kw_only=True):
    """A service and what answers for it."""

    service_id: str
    versions: list[SplitPart] = []
    rules: list[dict[str, Any]] = []
    options: dict[str, Any] = {}
    bound_ms: int = 0
    history: list[ServiceRelease] = []  #: the newest first


class ComparedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted of a version of a service, beside its main version."""

    model_id: str
    model_version: str
    rows: int = 0
    errors: int = 0
    mean_score: float | None = None
    psi: float | None = None  #: of its scores, against those of the main version
    compared_rows: int = 0  #: of a shadow: rows that another version answered
    mean_difference: float | None = None
    labels_differ: float | None = None  #: share of those rows


class DriftColumn(msgspec.Struct, frozen=True, kw_only=True):
    """How far one column is from its reference."""

    kind: str  #: score or feature
    column: str
    rows: int
    psi: float | None = None
    reference: str = ""  #: what it is measured against
    expected: list[float] = []  #: shares of the bins; the last one of missing values
    actual: list[float] = []


class DriftVersion(msgspec.Struct, frozen=True, kw_only=True):
    """How far the columns of one version are from their reference."""

    role: str
    party_id: str
    model_id: str
    model_version: str
    left_out: int = 0
    columns: list[DriftColumn] = []


class ProcessReadiness(msgspec.Struct, frozen=True, kw_only=True):
    """What `/readyz` answers."""

    ready: bool
    reasons: list[str] = []
    partners: dict[str, str] = {}  #: party -> what came of the last call
    circuits: dict[str, str] = {}  #: party -> open or half_open: it is left out for now


class PartnerIds(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the ids that may go to hosts; None: any."""

    partner_ids: list[str] | None = None


class TriedScore(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was answered to one row."""

    score: float | list[float] | None = None
    label: str | int | float | None = None
    credit_score: float | None = None
    model_version: str = ""
    selected_by: str = ""
    degraded: Any = None


class TriedRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to a request that was tried."""

    retcode: int
    retmsg: str = ""
    data: TriedScore = TriedScore()
    case_id: str = ""
