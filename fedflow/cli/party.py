"""`fedflow party`: other parties' servers."""

from __future__ import annotations

import click

from fedflow.cli.groups import Nouns
from fedflow.cli.session import Session, asks_server
from fedflow.client.site_results import PartyInfo


@click.group(cls=Nouns)
def command() -> None:
    """Other parties: can they be reached?"""


@command.command()
@click.argument("party_id")
@asks_server
def check(at: Session, party_id: str) -> None:
    """Ask another party's server through this one: tests the way there and back."""
    found = at.client.parties.check(party_id)
    at.out.result(found, lambda: _show(at, found, f"Party {party_id} answers."))


@command.command()
@asks_server
def own(at: Session) -> None:
    """Show what this server tells others about itself."""
    found = at.client.parties.own()
    at.out.result(found, lambda: _show(at, found, ""))


def _show(at: Session, found: PartyInfo, headline: str) -> None:
    if headline:
        at.out.note(headline)
    at.out.facts(
        (("party", found.party_id), ("version", found.version), ("host", found.host),
         ("HTTP port", found.http_port), ("gRPC port", found.grpc_port))
    )  # fmt: skip
