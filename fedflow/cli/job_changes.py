"""Commands of `fedflow job` that change a job, or show its documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fedflow.cli import session
from fedflow.cli.files import JsonFile, folder
from fedflow.cli.job_delete import delete
from fedflow.cli.job_view import wait_for
from fedflow.cli.output import clean as clean_text
from fedflow.cli.output import json_text
from fedflow.cli.session import Session, asks_server
from fedflow.domain.site import Site


@click.command()
@session.job_id
@session.some_components("Only this component and what depends on it; may be given several times.")
@click.option("--force", is_flag=True, help="Also what succeeded.")
@click.option("--failed-only", is_flag=True, help="Only what failed, not what never ran.")
@click.option(
    "-p",
    "--parameters",
    "conf",
    type=JsonFile(),
    help="Sections of a conf that change with the rerun, or not at all.",
)
@click.option("--wait", "wait_", is_flag=True, help="Wait for its end; exit code 3 if it fails.")
@asks_server
def rerun(
    at: Session, *, job_id: str, components: tuple[str, ...], force: bool, failed_only: bool,
    conf: dict[str, Any] | None, wait_: bool,
) -> None:  # fmt: skip
    """Run an ended job again: what did not succeed, and all that depends on it."""
    if force and failed_only:
        raise click.UsageError("`--force` and `--failed-only` exclude each other")
    at.client.rerun(
        job_id, components=components or None, force=force, failed_only=failed_only, conf=conf
    )
    if wait_:
        wait_for(at.client, at.out, job_id)
        return
    at.out.done({"job_id": job_id, "rerun": True}, f"Job {job_id} runs again.")


@click.command()
@session.job_id
@asks_server
def pause(at: Session, job_id: str) -> None:
    """Start no further task of a job; what runs ends, then the job returns its cores."""
    at.client.pause(job_id)
    at.out.done({"job_id": job_id, "paused": True}, f"Job {job_id} is paused.")


@click.command("continue")
@session.job_id
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Start N components.")
@click.option("--all", "all_", is_flag=True, help="Start all; wait for no further step.")
@asks_server
def proceed(at: Session, job_id: str, steps: int | None, all_: bool) -> None:
    """Continue a job that is paused, or that waits for its next step."""
    if steps is not None and all_:
        raise click.UsageError("give `--steps` or `--all`")
    at.client.proceed(job_id, steps=steps, all_=all_)
    at.out.done({"job_id": job_id, "continued": True}, f"Job {job_id} goes on.")


@click.command()
@session.job_id
@click.option("-c", "--conf", type=JsonFile(), help="Sections of a conf, for the next rerun.")
@click.option("--notes", metavar="TEXT", help="Notes, which lists show.")
@click.option("--name", metavar="TEXT", help="What people call the job here.")
@session.site_options
@asks_server
def update(
    at: Session, job_id: str, *, conf: dict[str, Any] | None, notes: str | None,
    name: str | None, site: Site | None,
) -> None:  # fmt: skip
    """Change parameters of an ended job for its next rerun, its notes, or its name."""
    if conf is None and notes is None and name is None:
        raise click.UsageError("give `--conf`, `--notes` or `--name`")
    changed = at.client.update_parameters(job_id, conf) if conf is not None else None
    value: Any = {"job_id": job_id} if changed is None else changed
    for word, text, store in (("notes", notes, at.client.note), ("name", name, at.client.rename)):
        if text is not None:
            store(job_id, text, site or at.client.own_sites(job_id)[0])
            if changed is None:
                value[word] = text
    at.out.done(value, f"Job {job_id} was changed.")


@click.command()
@session.job_id
@session.site_options
@click.option("-o", "--output", type=folder, help="Save each part as a file in this folder.")
@asks_server
def config(at: Session, job_id: str, site: Site | None, output: Path | None) -> None:
    """Print or save DSL and confs of a job, as JSON."""
    found = at.client.config(job_id, site or at.client.own_sites(job_id)[0])
    if output is None:
        click.echo(json_text(found))
        return
    output.mkdir(parents=True, exist_ok=True)
    files = []
    for name in ("dsl", "runtime_conf", "train_runtime_conf", "model_info"):
        path = output / f"{name}.json"
        path.write_text(json_text(getattr(found, name)) + "\n", encoding="utf-8")
        files.append(str(path))
    at.out.done(files, "\n".join(files))


@click.command()
@session.job_id
@session.one_component("Only of this component.")
@session.site_options
@asks_server
def view(at: Session, job_id: str, component: str | None, site: Site | None) -> None:
    """List the tables that the components of a job created at this server."""
    found = at.client.outputs(job_id, component=component, site=site)
    rows = [
        (t.component_name, f"{t.role} {t.party_id}", t.data_name, t.table_namespace, t.table_name)
        for t in found
    ]
    columns = ("component", "site", "output", "namespace", "table")
    at.out.listing(found, columns, rows, none="This server has no output of the job.")


@click.command()
@session.job_id
@session.site_options
@asks_server
def dag(at: Session, job_id: str, site: Site | None) -> None:
    """Show the components of a job, each after those that it depends on."""
    found = at.client.dependencies(job_id, site or at.client.own_sites(job_id)[0])
    rows = []
    for name in found.components:
        needs = [str(d.get("component_name")) for d in found.dependencies.get(name, ())]
        rows.append((name, found.component_module.get(name), ", ".join(dict.fromkeys(needs))))
    at.out.listing(found, ("component", "module", "needs"), rows, none="No components.")


@click.command()
@click.option("-d", "--train-dsl", type=JsonFile(), required=True, help="DSL of a training job.")
@click.option(
    "-c",
    "--component",
    "components",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Component that stays; may be given several times.",
)
@asks_server
def dsl(at: Session, train_dsl: dict[str, Any], components: tuple[str, ...]) -> None:
    """Print the predict DSL that a training DSL gives, as JSON."""
    click.echo(json_text(at.client.predict_dsl_from(train_dsl, components)))


@click.command()
@session.job_id
@session.yes
@asks_server
def clean(at: Session, job_id: str, yes: bool) -> None:
    """Delete what an ended job left at this server: output tables, metrics and its history."""
    session.confirm(at, f"Delete the outputs and metrics of job {job_id}?", yes=yes)
    done = at.client.clean(job_id)
    kept = f", {len(done.kept)} that other jobs use were kept" if done.kept else ""
    at.out.done(done, f"{len(done.tables)} tables and {done.metrics} metrics were deleted{kept}.")


@click.command()
@session.job_id
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--remove", is_flag=True, help="Remove the tags.")
@asks_server
def tag(at: Session, job_id: str, names: tuple[str, ...], remove: bool) -> None:
    """Give a job tags, by which it is found, or show those that it has."""
    change = at.client.job_tags.remove if remove else at.client.job_tags.add
    tags = at.client.job_tags.of(job_id) if not names else []
    for name in names:
        tags = change(job_id, name)
    at.out.result(tags, lambda: click.echo(clean_text(", ".join(tags)) or "No tags."))


COMMANDS = (pause, proceed, rerun, update, config, view, dag, dsl, clean, delete, tag)
