"""`fedflow component`: which modules a server can run, and their parameters."""

from __future__ import annotations

import click

from fedflow.base.errors import UnknownComponent
from fedflow.cli.groups import Nouns
from fedflow.cli.output import json_text
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """Component modules that a server can run."""


@command.command("list")
@asks_server
def list_(at: Session) -> None:
    """List the modules of this server."""
    found = at.client.components()
    rows = [(m.module, ", ".join(m.roles), m.summary) for m in found]
    at.out.result(found, lambda: at.out.table(("module", "roles", "what it does"), rows))


@command.command()
@click.argument("module")
@asks_server
def describe(at: Session, module: str) -> None:
    """Show what a module takes, gives, and its parameters as JSON schema."""
    wanted = module.lower()
    for one in at.client.components():
        if wanted in (one.module.lower(), *(alias.lower() for alias in one.aliases)):
            break
    else:
        raise UnknownComponent(module=module)

    def text() -> None:
        at.out.note(f"module      {one.module}")
        at.out.note(f"what        {one.summary}")
        at.out.note(f"roles       {', '.join(one.roles)}")
        at.out.note(f"data in     {', '.join(one.data_ports) or '-'}")
        at.out.note(f"out         {', '.join(one.outputs) or '-'}")
        at.out.note(f"parameters  {json_text(one.parameters)}")

    at.out.result(one, text)
