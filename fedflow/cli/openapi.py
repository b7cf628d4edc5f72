"""`fedflow openapi`: The OpenAPI document of a server's REST API."""

from __future__ import annotations

from pathlib import Path

import click

from fedflow.cli.files import new_file
from fedflow.cli.output import json_text
from fedflow.cli.session import Session, asks_server


@click.command()
@click.option("-o", "--output", type=new_file, help="Save it in this file instead of printing it.")
@asks_server
def command(at: Session, output: Path | None) -> None:
    """Print the OpenAPI 3.1 document of a server."""
    text = json_text(at.client.openapi())
    if output is None:
        click.echo(text)
        return
    output.write_text(text + "\n", encoding="utf-8")
    at.out.done({"file": str(output)}, f"The document was saved in {output}.")
