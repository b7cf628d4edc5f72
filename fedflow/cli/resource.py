"""`fedflow resource`: The cores of a server."""

from __future__ import annotations

import click

from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """The cores and the memory of a server."""


@command.command()
@asks_server
def query(at: Session) -> None:
    """Show cores and memory, and the jobs that hold them."""
    found = at.client.resources.get()
    rows = [(j.job_id, f"{j.role} {j.party_id}", j.engine, j.core, j.memory) for j in found.jobs]

    def text() -> None:
        for engine in found.engines:
            where = " on Spark" if engine.name == "SPARK" else ""
            at.out.note(f"{engine.free} of {engine.cores} cores are free{where}.")
            if engine.memory:
                at.out.note(f"{engine.free_memory} of {engine.memory} MiB of memory are free.")
        if rows:
            at.out.table(("job", "site", "engine", "cores", "MiB"), rows)

    at.out.result(found, text)


@command.command("return")
@session.job_id
@asks_server
def return_(at: Session, job_id: str) -> None:
    """Return the cores of an ended job that none of its processes uses."""
    found = at.client.resources.give_back(job_id)
    rows = [
        (f"{one.role} {one.party_id}", "yes" if one.resource_return_status else "no")
        for one in found
    ]
    at.out.listing(found, ("site", "returned"), rows, none="The job holds no cores at this server.")
