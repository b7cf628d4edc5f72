"""Errors 1700: components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedflow.base.errors.error import FedflowError


class BadParameter(FedflowError):
    """{path}: {reason}."""

    code, retcode, http = 1701, 101, 400
    public = ("path",)
    hint = "`fedflow component describe MODULE` lists the parameters with type and range."

    def __init__(self, *, more: Sequence[tuple[str, str]] = (), **fields: Any) -> None:
        """`more` are further mistakes, each (path, reason); the message lists all."""
        path, reason = fields["path"], str(fields["reason"])
        self.mistakes = ((str(path), reason), *more)
        listed = "; ".join([reason, *(f"{where}: {what}" for where, what in more)])
        super().__init__(**{**fields, "reason": listed})


class UnknownComponent(FedflowError):
    """No component module {module!r}.{meant}"""

    code, retcode, http = 1702, 101, 404
    public = ("module", "meant")
    hint = "`fedflow component list` shows the modules of this server; names are as in FATE."

    def __init__(self, *, meant: str = "", **fields: Any) -> None:
        """`meant` is a further sentence with names that are like this one, a space before it."""
        super().__init__(**fields, meant=meant)


class ComponentFailed(FedflowError):
    """{component} failed: {reason}"""

    code, retcode, http = 1703, 100, 500
    public = ("component",)
    hint = "`fedflow job log` has the traceback."


class NoCommonIds(FedflowError):
    """The parties have no sample id in common ({own} ids at this party)."""

    code, retcode, http = 1704, 100, 409
    hint = "Check that all parties use the same kind of id in the same spelling."


class Diverged(FedflowError):
    """Training diverged in iteration {iteration}: {reason}."""

    code, retcode, http = 1705, 100, 409
    public = ("iteration",)
    hint = "Scale the features, or lower learning_rate."


class NotEncodable(FedflowError):
    """A number cannot be encrypted exactly: {reason}."""

    code, retcode, http = 1706, 100, 409
    hint = "Scale the data: numbers under encryption have a fixed range."


class CacheNotFound(FedflowError):
    """{found} caches at {site} match {what}; exactly one is needed."""

    code, retcode, http = 1707, 101, 404
    public = ("site",)
    hint = "Name the job and component that created it (Intersection with run_cache), or its key."


class ProviderRefused(FedflowError):
    """The provider {provider} cannot be used: {reason}."""

    code, retcode, http = 1708, 103, 400
    public = ("provider",)
    hint = "`fedflow provider register --help` says what a provider folder holds."


class RefusedAsStrict(FedflowError):
    """The job is strict, and this is doubtful: {what}."""

    code, retcode, http = 1709, 103, 400
    hint = "Mend what is named, or submit the job without `strict`: then it is only a warning."


class ModuleNotYet(FedflowError):
    """{module} of FATE is not in fedflow {state}."""

    code, retcode, http = 1710, 101, 501
    public = ("module", "state")
    hint = "`fedflow component list` shows the modules of this server."


class TooFewMembers(FedflowError):
    """Round {round} of the secure sum is given up at {stage}: {reason}."""

    code, retcode, http = 1711, 104, 409
    public = ("round", "stage")
    hint = "Nothing of the round can be opened. See why members were late, or wait longer for them."


class DishonestParty(FedflowError):
    """{party} breaks the rules of the secure sum in round {round}: {reason}."""

    code, retcode, http = 1712, 100, 409
    public = ("party", "round")
    hint = "Nothing of the round can be opened. Ask that party which version of fedflow it runs."


class TooFewInRound(FedflowError):
    """Round {round} has {have} of {least} parties that it needs; missing: {missing}."""

    code, retcode, http = 1713, 104, 409
    public = ("round", "have", "least")
    hint = (
        "See at the missing parties why their tasks ended; `elastic.min_parties` says how many the"
        " training needs."
    )


class RoundsFailed(FedflowError):
    """Round {round} was begun {tries} times and never completed; last: {reason}."""

    code, retcode, http = 1714, 104, 409
    public = ("round", "tries")
    hint = "See the log of this task for what happened each time, and the parties that it names."


class RefusedByAggregator(FedflowError):
    """{site} does not let this party take part: {reason}."""

    code, retcode, http = 1715, 103, 409
    public = ("site",)
    hint = "Compare this party's data and parameters with what the reason names."


class ExtraMissing(FedflowError):
    """{what} needs {package}, which is not installed at this party."""

    code, retcode, http = 1716, 100, 409
    public = ("package",)
    hint = "Install the extra that it belongs to, `pip install fedflow[nn]` for PyTorch."
