"""`fedflow permission`: What jobs of other parties may use at this server."""

from __future__ import annotations

import click

from fedflow.cli import session, suggestions
from fedflow.cli.groups import Nouns
from fedflow.cli.session import Session, asks_server
from fedflow.wire.api.administration import GrantedTable

_ALL = GrantedTable(name="*", namespace="*")

components_option = click.option(
    "-c", "--component", "components", multiple=True, metavar="MODULE",
    help="Component module, * for all; may be given several times.",
    shell_complete=suggestions.modules,
)  # fmt: skip
tables_option = click.option(
    "-t", "--table", "tables", multiple=True, nargs=2, metavar="NAMESPACE NAME",
    help="Table; may be given several times.",
)  # fmt: skip


@click.group(cls=Nouns)
def command() -> None:
    """What jobs of other parties may use at this server."""


@command.command()
@session.party
@components_option
@tables_option
@click.option("--all-tables", is_flag=True, help="Every table of this server, later ones too.")
@asks_server
def grant(
    at: Session, *, party_id: str, components: tuple[str, ...],
    tables: tuple[tuple[str, str], ...], all_tables: bool,
) -> None:  # fmt: skip
    """Let a party use components and tables."""
    if not components and not tables and not all_tables:
        raise click.UsageError("name a `--component` or a `--table`, or `--all-tables`")
    at.client.permissions.grant(
        party_id, components=components, tables=None if all_tables else tables
    )
    at.out.done({"party_id": party_id, "granted": True}, f"Granted to party {party_id}.")


@command.command()
@session.party
@components_option
@tables_option
@click.option("--all-tables", is_flag=True, help="Every table that was granted.")
@asks_server
def revoke(
    at: Session, *, party_id: str, components: tuple[str, ...],
    tables: tuple[tuple[str, str], ...], all_tables: bool,
) -> None:  # fmt: skip
    """Revoke what was granted."""
    if not components and not tables and not all_tables:
        raise click.UsageError("name a `--component` or a `--table`, or `--all-tables`")
    at.client.permissions.revoke(
        party_id, components=components, tables=None if all_tables else tables
    )
    at.out.done({"party_id": party_id, "revoked": True}, f"Revoked from party {party_id}.")


@command.command()
@session.party
@asks_server
def query(at: Session, party_id: str) -> None:
    """Show what was granted to a party."""
    found = at.client.permissions.get(party_id)
    rows = [("component", name) for name in found.component]
    rows += [("table", "*" if t == _ALL else f"{t.namespace}.{t.name}") for t in found.dataset]
    at.out.listing(found, ("kind", "name"), rows, none="Nothing was granted.")
