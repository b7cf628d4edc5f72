"""Errors 1200: DSL and runtime conf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedflow.base.errors.error import FedflowError
from fedflow.base.values import dataclass


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
    public = ("summary",)  # it quotes the DSL and conf that all parties have, and names of modules
    problems: tuple[Problem, ...] = ()
    hint = "Correct the members at the given paths; all mistakes found are listed."

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(summary="; ".join(str(p) for p in self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.problems,))


class PredictDslNotMade(InvalidJobSpec):
    """The predict DSL cannot be created: {summary}"""

    code, retcode, http = 1202, 210, 210  # FATE's status for what it cannot send
    hint = "Correct the training DSL, and name components that it has."


class NotASite(FedflowError):
    """{site} is not a site of this job."""

    code, retcode, http = 1203, 101, 404
    public = ("site",)
    hint = "Name a role and a party id that the job's conf lists."
