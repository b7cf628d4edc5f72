"""`fedflow component`: Component modules that a server can run."""

from __future__ import annotations

from pathlib import Path

import click

from fedflow.cli import suggestions
from fedflow.cli.component_trial import TrialOptions, try_component
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.groups import Nouns
from fedflow.cli.output import Output, json_text
from fedflow.cli.session import Session, as_json, asks_server
from fedflow.domain.job.missing_modules import unknown_component


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
@click.argument("module", shell_complete=suggestions.modules)
@asks_server
def describe(at: Session, module: str) -> None:
    """Show what a module takes, gives, and its parameters as JSON schema."""
    found = {
        name.lower(): one for one in at.client.components() for name in (one.module, *one.aliases)
    }
    one = found.get(module.lower())
    if one is None:
        raise unknown_component(module, {name: known.module for name, known in found.items()})

    def text() -> None:
        at.out.note(f"module      {one.module}")
        at.out.note(f"what        {one.summary}")
        at.out.note(f"provider    {one.provider or 'fedflow'}")
        at.out.note(f"roles       {', '.join(one.roles)}")
        at.out.note(f"data in     {', '.join(one.data_ports) or '-'}")
        at.out.note(f"out         {', '.join(one.outputs) or '-'}")
        for message in one.messages or ():
            at.out.note(f"sends       {message['name']}: {message['content']}, {message['route']}")
        at.out.note(f"parameters  {json_text(one.parameters)}")

    at.out.result(one, text)


@command.command()
@click.argument("module", shell_complete=suggestions.modules)
@click.option(
    "--provider",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="The module is one of this provider folder.",
)
@click.option(
    "--site",
    "sites",
    multiple=True,
    metavar="SITE",
    help="A site that runs it, `host-10001`, or a role; again for more. Default: one per role.",
)
@click.option(
    "--data",
    "files",
    multiple=True,
    metavar="SITE[:PORT]=FILE",
    help="CSV file of a site, first column the id; again for more. Default: the example's.",
)
@click.option(
    "--params",
    multiple=True,
    metavar="[SITE=]JSON",
    help="Parameters, of all sites or of one on top; `@FILE` reads them. May be given again.",
)
@click.option("--port", help="Input port of files that name none. Default: the module's first.")
@click.option("--predict", is_flag=True, help="Then run it again with its models, on `test_data`.")
@click.option("--label", default="y", show_default=True, help="Column with the label, if any.")
@click.option("--raw", is_flag=True, help="Tables hold text, as after an upload.")
@click.option("--rows", default=5, show_default=True, help="Number of output rows to show.")
@click.option("--cores", default=1, show_default=True, type=click.IntRange(1))
@click.option("--timeout", default=60.0, show_default=True, help="For the run, seconds.")
@as_json
def test(
    module: str, provider: Path | None, sites: tuple[str, ...], files: tuple[str, ...],
    params: tuple[str, ...], port: str | None, predict: bool, label: str, raw: bool, rows: int,
    cores: int, timeout: float, as_json: bool,
) -> None:  # fmt: skip
    """Run MODULE at all its sites in this process, and show what comes out.

    MODULE is a name, or `module:attribute` of Python. No server is called. What it logs and prints
    goes to stderr. Exit code 3 if a site failed.
    """
    options = TrialOptions(
        module=module, provider=provider, sites=sites, files=files, params=params, port=port,
        predict=predict, label=label, raw=raw, rows=rows, cores=cores, timeout_s=timeout,
    )  # fmt: skip
    if not try_component(options, Output(as_json=as_json)):
        raise click.exceptions.Exit(CliExitCode.JOB_FAILED)
