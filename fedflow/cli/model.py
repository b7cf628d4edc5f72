"""`fedflow model`: Models: deploy, predict, export and import, tag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fedflow.cli import session, suggestions
from fedflow.cli.files import JsonFile, existing_file, folder, new_file
from fedflow.cli.groups import Nouns
from fedflow.cli.job_view import wait_for
from fedflow.cli.model_history import COMMANDS
from fedflow.cli.output import json_text, moment
from fedflow.cli.session import Session, asks_server
from fedflow.domain.site import Site
from fedflow.wire.api.jobs import Submitted
from fedflow.wire.api.models import NewVersion

replace_option = click.option("--replace", is_flag=True, help="Replace what exists already.")
wait_option = click.option("--wait", "wait_", is_flag=True, help="Wait for the job's end.")


@click.group(cls=Nouns)
def command() -> None:
    """Models: deploy, predict, export and import, tag."""


for _one in COMMANDS:
    command.add_command(_one)


# --- look -----------------------------------------------------------------------------------------


@command.command("list")
@click.option(
    "-m",
    "--model",
    "model_id",
    metavar="ID",
    help="Only of this model id.",
    shell_complete=suggestions.models,
)
@click.option(
    "-v", "--version", metavar="ID", help="Only this version.", shell_complete=suggestions.versions
)
@session.site_options
@asks_server
def list_(at: Session, model_id: str | None, version: str | None, site: Site | None) -> None:
    """List the models of the sites at this server, newest first."""
    found = at.client.models.find(model_id=model_id, version=version, site=site)
    rows = [
        (m.model_id, m.model_version, f"{m.role} {m.party_id}", "yes" if m.is_deployed else "",
         moment(m.create_time))
        for m in found
    ]  # fmt: skip
    at.out.listing(found, ("model", "version", "site", "deployed", "created"), rows,
                   none="No models.")  # fmt: skip


_deployed_version = click.option(
    "-v",
    "--version",
    required=True,
    metavar="ID",
    help="A deployed version.",
    shell_complete=suggestions.versions,
)
_model_of_name = click.option(
    "-m", "--model-id", metavar="ID", help="The model of a version `branch:NAME` or `tag:NAME`."
)


@command.command()
@session.model_version
@asks_server
def info(at: Session, model_id: str, version: str) -> None:
    """Show the components of a version; `--json` also its DSLs and confs."""
    found = at.client.models.detail(model_id, version)
    kept = {c.component_name for c in found.inference_component_info}
    rows = [
        (c.component_name, c.module, "yes" if c.component_name in kept else "")
        for c in found.component_info
    ]
    at.out.listing(found, ("component", "module", "predicts"), rows, none="No components.")


@command.command("predict-dsl")
@session.model_version
@asks_server
def predict_dsl(at: Session, model_id: str, version: str) -> None:
    """Print the predict DSL of a deployed version, as JSON."""
    click.echo(json_text(at.client.models.predict_dsl(model_id, version)))


@command.command("predict-conf")
@session.model_version
@asks_server
def predict_conf(at: Session, model_id: str, version: str) -> None:
    """Print a conf to predict with, whose tables are to be filled in, as JSON."""
    click.echo(json_text(at.client.models.predict_conf(model_id, version)))


# --- deploy, predict ------------------------------------------------------------------------------


@command.command()
@session.model_version
@session.some_components("Component that predicts; may be given several times; default: all.")
@click.option("-d", "--dsl", type=JsonFile(), help="A predict DSL of your own.")
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    metavar="NAME=STEP",
    help="Take a component's model from this step, by index or name.",
)
@asks_server
def deploy(
    at: Session, *, model_id: str, version: str, components: tuple[str, ...],
    dsl: dict[str, Any] | None, checkpoints: tuple[str, ...],
) -> None:  # fmt: skip
    """Create a version that predict jobs can use, at all its sites or at none."""
    if components and dsl is not None:
        raise click.UsageError("give either `--component` or `--dsl`")
    made = at.client.models.deploy(
        model_id,
        version,
        components=components or None,
        predict_dsl=dsl,
        checkpoints=dict(_step(text) for text in checkpoints),
    )
    _show_new(at, made)


@command.command()
@session.model_version
@click.option(
    "-t",
    "--table",
    "tables",
    multiple=True,
    nargs=3,
    required=True,
    metavar="ROLE[:PARTY] NAMESPACE NAME",
    help="What a role's reader reads; once for each role with data.",
)
@wait_option
@asks_server
def predict(
    at: Session, *, model_id: str, version: str, tables: tuple[tuple[str, str, str], ...],
    wait_: bool,
) -> None:  # fmt: skip
    """Submit a predict job with a deployed version."""
    wanted: dict[str | tuple[str, int | str], tuple[str, str]] = {}
    for who, namespace, name in tables:
        role, colon, party = who.partition(":")
        wanted[(role, party) if colon else role] = (namespace, name)
    made = at.client.models.predict(model_id, version, wanted)
    _show_job(at, made, wait_)


# --- to and from other servers --------------------------------------------------------------------


@command.command()
@session.model_version
@session.one_site
@click.option("-o", "--output", type=folder, required=True, help="Folder for the archive.")
@asks_server
def export(at: Session, model_id: str, version: str, site: Site, output: Path) -> None:
    """Save a site's model as an archive."""
    path = at.client.models.export(model_id, version, site, output)
    at.out.done({"file": str(path)}, f"The model was saved: {path}")


@command.command("import")
@session.model_version
@session.one_site
@click.option("-f", "--file", type=existing_file, required=True, help="Archive of a model.")
@click.option("--sha256", metavar="HEX", help="Refuse an archive with another digest.")
@replace_option
@asks_server
def import_(
    at: Session, *, model_id: str, version: str, site: Site, file: Path, sha256: str | None,
    replace: bool,
) -> None:  # fmt: skip
    """Store the model that an archive holds."""
    at.client.models.import_(model_id, version, site, file, replace=replace, sha256=sha256)
    at.out.done(
        {"model_id": model_id, "model_version": version, "site": site.key, "imported": True},
        f"The model {version} of {site} was stored.",
    )


@command.command()
@session.json_file
@asks_server
def migrate(at: Session, conf: dict[str, Any]) -> None:
    """Create a version with other party ids, ready to be exported; the conf is FATE's."""
    _show_new(at, at.client.models.migrate(conf))


@command.command()
@session.model_version
@session.one_site
@replace_option
@wait_option
@asks_server
def store(
    at: Session, *, model_id: str, version: str, site: Site, replace: bool, wait_: bool
) -> None:
    """Copy a site's model to the external model store."""
    _show_job(at, at.client.models.store(model_id, version, site, replace=replace), wait_)


@command.command()
@session.model_version
@session.one_site
@click.option("--sha256", metavar="HEX", help="Refuse a copy with another digest.")
@wait_option
@asks_server
def restore(
    at: Session, *, model_id: str, version: str, site: Site, sha256: str | None, wait_: bool
) -> None:
    """Restore a site's model from the external model store."""
    _show_job(at, at.client.models.restore(model_id, version, site, sha256=sha256), wait_)


# --- weights of evidence of a host's bins ---------------------------------------------------------


@command.command("woe-extract")
@session.model_version
@session.one_site
@session.component
@click.option(
    "--host",
    metavar="ID",
    help="Party id of the host. Default: the first one.",
    shell_complete=suggestions.parties,
)
@click.option("-o", "--output", type=new_file, required=True, help="JSON file to write.")
@asks_server
def woe_extract(
    at: Session, *, model_id: str, version: str, site: Site, component: str, host: str | None,
    output: Path,
) -> None:  # fmt: skip
    """Save what a guest's binning knows of a host's bins, for that host."""
    found = at.client.models.woe_arrays(model_id, version, site, component, host=host)
    try:
        output.write_text(json_text(found), encoding="utf-8")
    except OSError as exc:
        raise click.ClickException(f"{output}: {exc.strerror or exc}") from exc
    at.out.done(
        {"file": str(output), "columns": len(found)},
        f"The woe of {len(found)} columns was saved: {output}",
    )


@command.command("woe-merge")
@session.model_version
@session.one_site
@session.component
@click.option(
    "-i",
    "--input",
    "arrays",
    type=JsonFile(),
    required=True,
    help="File that `model woe-extract` saved.",
)
@asks_server
def woe_merge(
    at: Session, *, model_id: str, version: str, site: Site, component: str, arrays: dict[str, Any]
) -> None:
    """Merge what `model woe-extract` saved at the guest into a host's model."""
    at.client.models.merge_woe_arrays(model_id, version, site, component, arrays)
    at.out.done(
        {"model_id": model_id, "model_version": version, "site": site.key, "columns": len(arrays)},
        f"{component} of {site} has the woe of {len(arrays)} columns now.",
    )


# --- serving, conversion --------------------------------------------------------------------------


@command.command()
@_deployed_version
@_model_of_name
@asks_server
def load(at: Session, version: str, model_id: str | None) -> None:
    """Load a deployed version into the serving processes of all its parties, or of none."""
    found = at.client.models.load(version, model_id=model_id)
    at.out.done(found, f"Version {version} is loaded at all parties.")


@command.command()
@_deployed_version
@_model_of_name
@asks_server
def unload(at: Session, version: str, model_id: str | None) -> None:
    """Let the serving processes of all parties forget a version."""
    found = at.client.models.unload(version, model_id=model_id)
    at.out.done(found, f"Version {version} is not loaded any more.")


@command.command()
@_deployed_version
@click.option("-s", "--service", required=True, metavar="ID", help="Service id.")
@click.option(
    "-w",
    "--weight",
    type=click.FloatRange(0, 100),
    default=100.0,
    metavar="PERCENT",
    help="Percent of the users that it answers; by default all.",
)
@click.option("--shadow", is_flag=True, help="It scores beside the others and answers nobody.")
@click.option(
    "--options",
    "given",
    type=JsonFile(),
    help="JSON file with `rules` or `options` of the service.",
)
@_model_of_name
@asks_server
def bind(
    at: Session,
    version: str,
    service: str,
    weight: float,
    shadow: bool,
    given: dict[str, Any] | None,
    model_id: str | None,
) -> None:
    """Let this party's serving processes answer a service with a loaded version."""
    given = given or {}
    if unknown := sorted(given.keys() - {"rules", "options"}):
        reason = f"unknown: {', '.join(unknown)}; known are rules, options"
        raise click.BadParameter(reason, param_hint="--options")
    at.client.models.bind(
        version,
        service,
        model_id=model_id,
        weight=weight,
        shadow=shadow,
        rules=given.get("rules"),
        options=given.get("options"),
    )
    part = "beside the others" if shadow else "all users" if weight == 100 else f"{weight:g} %"
    found = {"service": service, "model_version": version, "weight": weight, "shadow": shadow}
    at.out.done(found, f"{service} serves {version}: {part}.")


@command.command()
@click.option("-s", "--service", required=True, metavar="ID", help="Service id.")
@asks_server
def rebind(at: Session, service: str) -> None:
    """Let what answered for a service before the last change answer again."""
    at.client.models.rebind(service)
    at.out.done({"service": service}, f"{service} is served as before.")


@command.command()
@click.option("-s", "--service", required=True, metavar="ID", help="Service id.")
@asks_server
def unbind(at: Session, service: str) -> None:
    """Let this party's serving processes forget a service."""
    at.client.models.unbind(service)
    at.out.done({"service": service}, f"{service} is not served any more.")


@command.command("homo-convert")
@session.model_version
@session.one_site
@click.option("--framework", default="", metavar="NAME", help="Target framework.")
@asks_server
def homo_convert(at: Session, model_id: str, version: str, site: Site, framework: str) -> None:
    """Convert a horizontal model to the format of a framework."""
    click.echo(json_text(at.client.models.homo_convert(model_id, version, site, framework)))


@command.command("homo-deploy")
@session.json_file
@asks_server
def homo_deploy(at: Session, conf: dict[str, Any]) -> None:
    """Deploy a converted horizontal model; the conf is FATE's."""
    click.echo(json_text(at.client.models.homo_deploy(conf)))


# --- tags -----------------------------------------------------------------------------------------


@command.command()
@click.option(
    "-v",
    "--version",
    required=True,
    metavar="ID",
    help="Version of a model.",
    shell_complete=suggestions.versions,
)
@click.argument("name", required=False)
@click.option("--remove", is_flag=True, help="Remove the tag.")
@asks_server
def tag(at: Session, version: str, name: str | None, remove: bool) -> None:
    """Give a version the tag NAME; without a name list its tags."""
    if name is None:
        if remove:
            raise click.UsageError("name the tag to remove")
        found = at.client.tags.of(version)
        rows = [(t.name, t.description) for t in found]
        at.out.listing(found, ("tag", "description"), rows, none="No tags.")
    elif remove:
        at.client.tags.detach(name, version)
        at.out.done({"tag": name, "model_version": version, "removed": True},
                    f"Version {version} no longer has tag {name}.")  # fmt: skip
    else:
        at.client.tags.attach(name, version)
        at.out.done({"tag": name, "model_version": version}, f"Version {version} has tag {name}.")


def _step(text: str) -> tuple[str, int | str]:
    name, equals, step = text.partition("=")
    if not (name and equals and step):
        raise click.UsageError(f"--checkpoint {text!r} is not like hetero_lr_0=3")
    return name, int(step) if step.isdigit() else step


def _show_new(at: Session, made: NewVersion) -> None:
    at.out.done(made, f"Model {made.model_id} has the version {made.model_version} now.")


def _show_job(at: Session, made: Submitted, wait_: bool) -> None:
    if wait_:
        at.out.note(f"Job {made.job_id} was submitted.")
        wait_for(at.client, at.out, made.job_id)
    else:
        at.out.done(made, f"Job {made.job_id} was submitted.")
