"""Commands of `fedflow model` about a model's history: commits, branches, differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click

from fedflow.cli import session, suggestions
from fedflow.cli.groups import Nouns
from fedflow.cli.output import moment
from fedflow.cli.session import Session, asks_server
from fedflow.domain.site import Site
from fedflow.wire.api.model_history import ChangedHistory, ModelCommitDetail, ModelDiff

_NAMES: Final = "A version, `branch:NAME` or `tag:NAME`."

model_option = click.option(
    "-m",
    "--model",
    "model_id",
    required=True,
    metavar="ID",
    help="Model id, for example guest-9999#host-10000#model.",
    shell_complete=suggestions.models,
)
version_option = click.option(
    "-v",
    "--version",
    required=True,
    metavar="NAME",
    help=_NAMES,
    shell_complete=suggestions.versions,
)
message_option = click.option("--message", default="", metavar="TEXT", help="Why.")
person_option = click.option(
    "--person", default="", metavar="NAME", help="Who does it; stays at this party."
)


# --- look -----------------------------------------------------------------------------------------


@click.command()
@model_option
@click.option(
    "-v",
    "--version",
    metavar="NAME",
    shell_complete=suggestions.versions,
    help=f"Only what leads to it. {_NAMES}",
)
@session.site_options
@click.option("-l", "--limit", default=50, show_default=True, type=click.IntRange(1, 1000))
@click.option("--after", metavar="TEXT", help="What the page before ended with.")
@asks_server
def log(
    at: Session,
    *,
    model_id: str,
    version: str | None,
    site: Site | None,
    limit: int,
    after: str | None,
) -> None:
    """List the commits of a model, newest first, with their branches and tags."""
    found = at.client.commits.page(model_id, version, site=site, limit=limit, after=after)
    rows = [
        (
            c.model_version,
            c.kind,
            moment(c.create_time),
            c.author_party,
            ", ".join(p.model_version for p in c.parents),
            ", ".join(c.branches),
            ", ".join(c.tags),
            c.message.partition("\n")[0],
        )
        for c in found.commits
    ]
    at.out.listing(
        found,
        ("version", "kind", "created", "party", "parents", "branches", "tags", "message"),
        rows,
        none="No commits.",
    )
    if found.next is not None:
        at.out.note(f"--after {found.next} shows more.")


@click.command()
@model_option
@version_option
@session.site_options
@asks_server
def show(at: Session, model_id: str, version: str, site: Site | None) -> None:
    """Show one commit: message, parents, digests, metrics, code and data."""
    found = at.client.commits.show(model_id, version, site=site)
    at.out.result(found, lambda: at.out.facts(_facts(found)))


def _facts(found: ModelCommitDetail) -> Iterator[tuple[str, Any]]:
    yield "version", found.model_version
    yield "site", f"{found.role} {found.party_id}"
    yield "kind", found.kind
    yield "created", moment(found.create_time)
    if found.commit_time is not None:
        yield "committed", moment(found.commit_time)
        yield "message", found.message
    yield "author", f"{found.author_party} {found.person}".strip()
    yield "approval", found.approval or None
    yield "parents", ", ".join(p.model_version for p in found.parents) or None
    yield "branches", ", ".join(found.branches) or None
    yield "tags", ", ".join(found.tags) or None
    for site, digest in found.shares.items():
        yield f"share of {site}", digest
    yield "parameters", found.parameters_sha256
    yield "code", f"fedflow {found.fedflow}, FATE {found.fate}"
    for table in found.tables:
        rows = "dropped or replaced" if table.rows is None else f"{table.rows} rows"
        yield table.component, f"{table.namespace} {table.name}, {rows}"
    for component, values in found.metrics.items():
        yield f"metrics of {component}", values


@click.command()
@model_option
@session.site_options
@click.argument("old")
@click.argument("new")
@asks_server
def diff(at: Session, *, model_id: str, site: Site | None, old: str, new: str) -> None:
    """List what differs between two versions: DSL, parameters, metrics, weights of one site."""
    found = at.client.commits.diff(model_id, old, new, site=site)
    at.out.listing(
        found, ("what", "old", "new"), list(_differences(found)), none="Nothing differs."
    )


def _differences(found: ModelDiff) -> Iterator[tuple[str, Any, Any]]:
    for name in found.dsl.removed:
        yield f"component {name}", "there", "-"
    for name in found.dsl.added:
        yield f"component {name}", "-", "there"
    parts: Mapping[str, Mapping[str, tuple[Any, Any]]] = {
        "DSL": found.dsl.changed,
        "parameter": found.parameters,
        "metric": found.metrics,
    }
    for what, changes in parts.items():
        for path, (before, after) in changes.items():
            yield f"{what} {path}", _shown(before), _shown(after)
    for name, model in found.models.items():
        if model.weights is None:
            before, after = (str(digest or "-")[:12] for digest in model.digests)
            yield f"model {name}", before, after
        for column, (weight, other) in (model.weights or {}).items():
            yield f"weight {name} {column}", _shown(weight), _shown(other)


def _shown(value: Any) -> str:
    return "-" if value is None else str(value)


# --- change ---------------------------------------------------------------------------------------


@click.command()
@model_option
@version_option
@click.option("--message", required=True, metavar="TEXT", help="What is said of it for good.")
@click.option("--approval", default="", metavar="TEXT", help="What allowed it.")
@person_option
@asks_server
def commit(
    at: Session, *, model_id: str, version: str, message: str, approval: str, person: str
) -> None:
    """Give a version its message and note all digests, at all its sites or at none."""
    done = at.client.commits.commit(model_id, version, message, approval=approval, person=person)
    at.out.done(done, f"Version {done.model_version} was committed.")


@click.command()
@model_option
@message_option
@person_option
@click.argument("name")
@asks_server
def rollback(at: Session, *, model_id: str, message: str, person: str, name: str) -> None:
    """Let the branch NAME name what it named before; again: one further back."""
    _named(at, at.client.commits.rollback(model_id, name, message=message, person=person))


@click.group(cls=Nouns)
def branch() -> None:
    """Branches of a model: list, create, move, delete."""


@branch.command("list")
@model_option
@session.site_options
@asks_server
def branch_list(at: Session, model_id: str, site: Site | None) -> None:
    """List the branches of a model and what they name."""
    found = at.client.commits.branches(model_id, site=site)
    rows = [(b.branch, b.model_version, moment(b.create_time), b.message) for b in found]
    at.out.listing(found, ("branch", "version", "since", "message"), rows, none="No branches.")


@branch.command("moves")
@model_option
@session.site_options
@click.argument("name")
@asks_server
def branch_moves(at: Session, model_id: str, site: Site | None, name: str) -> None:
    """List the moves of the branch NAME, newest first."""
    found = at.client.commits.moves(model_id, name, site=site)
    rows = [
        (
            b.kind,
            b.model_version,
            moment(b.create_time),
            f"{b.author_party} {b.person}".strip(),
            b.message,
        )
        for b in found
    ]
    at.out.listing(found, ("what", "version", "when", "who", "message"), rows, none="No moves.")


def _to(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--to",
        "version",
        required=True,
        metavar="NAME",
        help=f"{text} {_NAMES}",
        shell_complete=suggestions.versions,
    )


@branch.command("create")
@model_option
@_to("What it names.")
@message_option
@person_option
@click.argument("name")
@asks_server
def branch_create(
    at: Session, *, model_id: str, version: str, message: str, person: str, name: str
) -> None:
    """Create the branch NAME at all sites of the model or at none."""
    done = at.client.commits.create_branch(model_id, name, version, message=message, person=person)
    _named(at, done)


@branch.command("move")
@model_option
@_to("What it names from now on; of two branches, the side that is chosen.")
@message_option
@person_option
@click.argument("name")
@asks_server
def branch_move(
    at: Session, *, model_id: str, version: str, message: str, person: str, name: str
) -> None:
    """Let the branch NAME name another version, at all sites of the model or at none."""
    done = at.client.commits.move_branch(model_id, name, version, message=message, person=person)
    _named(at, done)


@branch.command("delete")
@model_option
@message_option
@person_option
@session.yes
@click.argument("name")
@asks_server
def branch_delete(
    at: Session, *, model_id: str, message: str, person: str, yes: bool, name: str
) -> None:
    """Delete the branch NAME at all sites of the model or at none; its moves are kept."""
    session.confirm(at, f"Delete branch {name}?", yes=yes)
    done = at.client.commits.delete_branch(model_id, name, message=message, person=person)
    at.out.done(done, f"Branch {name} was deleted; it named {done.model_version}.")


def _named(at: Session, done: ChangedHistory) -> None:
    at.out.done(done, f"Branch {done.branch} names version {done.model_version} now.")


COMMANDS: Final = (log, show, diff, commit, branch, rollback)
