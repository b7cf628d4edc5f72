"""What other parties are told of an error: its name, and its sentence without what is not theirs.

An error's class lists the fields that may leave (`FedflowError.public`); so does `_SENTENCES` for
what is no error's. All other values are replaced, and so is a text of which nobody knows how it was
made. This is applied where something is said to another party; a party itself sees everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, TypeVar

from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.error import FedflowError
from fedflow.base.messages import Message, plain_template
from fedflow.domain.reason import Reason

E = TypeVar("E", bound=FedflowError)

HIDDEN: Final = "…"  #: stands for a value that stays at its party
_OTHERS_WORDS: Final = frozenset(
    {"address", "error", "hold", "job_id", "message", "reason", "socket"}
)
"""Fields of `_SENTENCES` that may hold anything: they leave only as sentences that may leave."""

_SENTENCES: Final = (
    "{failure}; the details stay at {site}",
    "{component} at {site}: {message}",
    "{component}: {message}",
    "{component} did not succeed",
    "{site}: {message}",
    "{party}: {message}",
    "{message} {hint}",
    "{address}: {reason}",
    "stopped by {site}",
    "stopped by a user at {site}",
    "taken out of the queue by a user at {site}",
    "paused by {site}",
    "continued by {site}",
    "`fedflow job continue` lets the next component begin",
    "{site} could not be reached: {error}",
    "{site} does not take part any more",
    "{site} has not answered for {seconds} seconds",
    "{site} has given the job up ({status})",
    "{site} has given the job up: {message}",
    "{site} has another run of the job",
    "{site} has lost the job",
    "{site} sends heartbeats, but named this job {seconds} seconds ago for the last time",
    "{sites} did not accept the job within {seconds} seconds",
    "no answer within {seconds} s",
    "the job was still {status} after its timeout of {seconds} seconds",
    "waits for {need} at {site}: {left}",
    "waits for {need} at {site}: what is free there is kept for job {job_id}, "
    "which has waited for {seconds} seconds",
    "killed by signal {signal}",
    "exit code {code} without a report",
    "it is gone, and its exit status could not be learnt",
    "it could not reach its server at {socket} for a minute (exit code {code})",
    "it answers, but its store cannot be used",
    "{limit} of its jobs have not ended",
    "its jobs take {mib} MiB of the disk",
    "{kind}; the log of this party has its text.",
    "{party} cannot reach {other}: it has no route to it",
    "{party} cannot reach {other} at {error}",
    "{party} has no module {module} (it is fedflow {version})",
    "the component {component}",
    "an output of job {earlier}",
    "skipped by its policy {policy}, because {component} was skipped",
    "skipped by its policy {policy}, because {component} is {status}",
    "the job's parameter run_to leaves it out",
    # what the asker's own wish, the job that both know, or a limit speaks against
    "it has no component {component}, but {known}",
    "all that would run again has succeeded; with force it runs nevertheless",
    "all that would run again has succeeded; with force it runs nevertheless, "
    "and run_to leaves out what is not needed for {components}",
    "it is {status}; stop it first",
    "it is paused already ({hold})",
    "it has ended: {status}",
    "it is not from 1 to {limit}",
    "{message}; nothing was changed",
    "a value does not fit into the store ({error})",
    "{party} does not accept {other}: {reason}",
    "{site} answers, but has not been able to use its store for {seconds} seconds",
    "{site} answers, but none of its servers has led for {seconds} seconds",
    # amounts of what a job needs and may have
    "{cores} cores",
    "{cores} cores on Spark",
    "{memory} MiB of memory",
    "{most} for one job, of {cores}",
    "{free} of {total} free",
    "{free} of {total} free on Spark",
    "{free} of {total} MiB free",
)
"""Sentences of reasons and answers that are no error's; their other fields may leave."""


def outside(message: str, *, code: str, site: object) -> Message:
    """Return a sentence as other parties get it; `code` is the error's name, `site` whose it is."""
    instead = Message("{failure}; the details stay at {site}", _name(code), site)
    return _shown(message, instead) or instead


def outside_reason(reason: Reason, site: object) -> Reason:
    """Return a reason as other parties get it; `site` says it if the reason names none."""
    told = outside(reason.message, code=reason.code, site=reason.site or site)
    return Reason(code=_name(reason.code), message=told, site=reason.site)


def outside_error(error: E, site: object) -> E:
    """Return an error as other parties get it, with the hint of its class."""
    told = type(error).repeated(outside(error.message, code=error.name, site=site))
    told.fields = {
        name: value if name in error.public else HIDDEN for name, value in error.fields.items()
    }
    return told


def is_kept_back(message: str) -> bool:
    """Tell whether a sentence is one that another party has left something out of."""
    if not isinstance(message, Message):
        return False
    return message.template == _SENTENCES[0] or any(
        value == HIDDEN or is_kept_back(value) for value in message.fields.values()
    )


def _name(code: str) -> str:
    """Return an error's name; a text instead of one stays, as components make their classes."""
    return code if re.fullmatch(r"\w{1,100}", code) else FedflowError.__name__


def _shown(message: str, instead: Message) -> Message | None:
    """Return what may be said of a sentence; None: nothing. `instead` stands for a cause of which
    nothing may be said.
    """
    if not isinstance(message, Message):
        return None
    public = _public().get(_stem(message.template))
    if public is None and not _JOINED.fullmatch(message.template):
        return None
    fields: dict[str, str] = {}
    for name, value in message.fields.items():
        if isinstance(value, Message):
            shown = _shown(value, instead)
            fields[name] = shown or (instead if name == "message" else HIDDEN)
        else:
            fields[name] = value if not value or name in (public or ()) else HIDDEN
    words = re.search("[a-z]{3}", re.sub(r"\{\w+\}", "", message.template))
    if words is None and all(value in ("", HIDDEN) for value in fields.values()):
        return None
    return message.with_fields(fields)


_JOINED: Final = re.compile(r"\{part0\}(?:(?:[;,.]?| and) \{part\d+\})*")  #: what `joined` makes


def _stem(template: str) -> str:
    """Return a template as it is within a longer sentence."""
    return template.removesuffix(".")


@cache
def _public() -> Mapping[str, frozenset[str]]:
    """Return the fields that may leave, by template."""
    known = {
        _stem(text): frozenset(re.findall(r"\{(\w+)\}", text)) - _OTHERS_WORDS
        for text in _SENTENCES
    }
    for kind in all_errors():
        key = _stem(plain_template(kind.template()))
        known[key] = known.get(key, frozenset(kind.public)) & frozenset(kind.public)
    return known
