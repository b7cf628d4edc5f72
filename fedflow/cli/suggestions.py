"""What a shell offers for an option: names that the server knows.

The server has a second to answer; without an answer nothing is offered, and nothing is printed.
Shells put a word on the command line as it is, and other companies choose some names: only words
without a meaning for a shell are offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from fedflow.cli.connecting import connect_briefly
from fedflow.client.client import Client

_TIMEOUT_S: Final = 1.0
_MOST: Final = 100  #: words that are offered
_PLAIN: Final = re.compile(r"[\w.#@%+,/][\w.#@%+,/-]*")

Given = dict[str, Any]
"""Options that were typed so far."""
Known = Iterable[tuple[Any, str]]
"""Words, each with a few words about it; the same word may come twice."""
Suggest = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _offers(find: Callable[[Client, Given, str], Known]) -> Suggest:
    """Return what click asks for words. `find` gets the client, what was typed, and a beginning."""

    def suggest(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        try:
            with connect_briefly(ctx.params.get("server"), timeout_s=_TIMEOUT_S) as client:
                known = {str(word): about for word, about in find(client, ctx.params, incomplete)}
        except Exception:  # noqa: BLE001  a key press is no place for errors
            return []
        begin = incomplete.lower()
        fits = [word for word in known if word.lower().startswith(begin) and _PLAIN.fullmatch(word)]
        return [CompletionItem(word, help=known[word] or None) for word in fits[:_MOST]]

    return suggest


@_offers
def jobs(client: Client, _given: Given, _begin: str) -> Known:
    """Jobs of the server, newest first."""
    return [(job.job_id, f"{job.status} {job.role}") for job in client.jobs(_MOST).jobs]


@_offers
def components(client: Client, given: Given, _begin: str) -> Known:
    """Components of the job that was named, or of the one that trained the model version."""
    job_id = given.get("job_id") or given.get("version") or given.get("model_version")
    if not job_id:
        return []
    view = client.job(str(job_id))
    return [(task.component, task.module) for task in view.tasks]


@_offers
def modules(client: Client, _given: Given, _begin: str) -> Known:
    """Component modules of the server."""
    return [(one.module, one.summary) for one in client.components()]


@_offers
def namespaces(client: Client, _given: Given, begin: str) -> Known:
    """Namespaces of tables."""
    return [(one.namespace, "") for one in client.tables.listed(begin, limit=1000).tables]


@_offers
def tables(client: Client, given: Given, begin: str) -> Known:
    """Tables, those of the namespace that was named."""
    found = client.tables.listed(begin, namespace=given.get("namespace"), limit=1000).tables
    return [(one.name, f"{one.namespace}, {one.count} rows") for one in found]


@_offers
def models(client: Client, _given: Given, _begin: str) -> Known:
    """Ids of models."""
    return [(one.model_id, "") for one in client.models.find()]


@_offers
def versions(client: Client, given: Given, _begin: str) -> Known:
    """Versions of the model that was named, else of all."""
    found = client.models.find(model_id=given.get("model_id"))
    return [(one.model_version, one.model_id) for one in found]


@_offers
def parties(client: Client, given: Given, _begin: str) -> Known:
    """Parties of the job that was named, in the role that was; else all that the server knows."""
    if job_id := given.get("job_id"):
        roles = client.job(str(job_id)).roles
        chosen = {given["role"]} if given.get("role") in roles else roles.keys()
        return [(party, role) for role in roles if role in chosen for party in roles[role]]
    own = client.parties.own().party_id
    others = [(one.party_id, one.state) for one in client.parties.all()]
    return [(own, "this server"), *others] if own else others
