"""What people do with versions of models: tags, deploying, exporting."""

from __future__ import annotations

from flask import Response, request, send_file

from fedflow.app.models.deployment import DeployRequest
from fedflow.app.models.model_changes import ChangedModel
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message, verbatim
from fedflow.board.forms import act
from fedflow.board.language import t
from fedflow.board.message_catalog import told
from fedflow.board.model_urls import model_id_of_path, site_of_query, version_url
from fedflow.board.page import board_blueprint, came_from, redirect_to
from fedflow.domain.administration.accounts import AccountRole
from fedflow.domain.models.model import ModelKey, StepChoice
from fedflow.web.context import services
from fedflow.wire.model_fields import dag_components

board_model_actions = board_blueprint("board_model_actions", "/models")


@act(board_model_actions, "/<model>/<version>/tags", endpoint="add_tag")
def add_tag(model: str, version: str) -> Response:
    """Give a tag to a version."""
    name = request.form.get("tag", "").strip()
    services().models.tags.attach(name, version)
    return redirect_to(_back(model, version), message=t("The tag was added."))


@act(board_model_actions, "/<model>/<version>/tags/remove", endpoint="remove_tag")
def remove_tag(model: str, version: str) -> Response:
    """Take a tag from a version."""
    services().models.tags.detach(request.form.get("tag", ""), version)
    return redirect_to(_back(model, version), message=t("The tag was removed."))


@act(board_model_actions, "/<model>/<version>/deploy", endpoint="deploy")
def deploy(model: str, version: str) -> Response:
    """Deploy a trained version at all its sites, or at none."""
    key = _key(model, version)
    chosen = request.form.getlist("components")
    if not chosen:
        raise BadRequest(reason="choose at least one component that stays")
    parent = services().models.repository.version(key)
    every = [one.component_name for one in dag_components(parent.train_dsl)]
    done = services().models.deployment.deploy(
        DeployRequest(
            model_id=key.model_id,
            model_version=key.model_version,
            components=None if set(every) <= set(chosen) else chosen,
            checkpoints=_steps(chosen),
        )
    )
    if not done.outcome.done:
        url = version_url(key)
        return redirect_to(url, message=_told(done, t("It was not deployed.")), kind="bad")
    made = ModelKey(site=key.site, model_id=done.model_id, model_version=done.model_version)
    return redirect_to(version_url(made), message=_told(done, t("It was deployed.")))


@act(board_model_actions, "/<model>/<version>/export", role=AccountRole.OPERATOR, endpoint="export")
def export(model: str, version: str) -> Response:
    """Return this site's part of a version as an archive, as `model/import` takes it."""
    key = _key(model, version)
    content = services().models.exchange.export(key)
    name = f"{key.party_model_id.replace('#', '_')}_{key.model_version}.zip"
    return send_file(content, mimetype="application/zip", as_attachment=True, download_name=name)


def _steps(components: list[str]) -> dict[str, StepChoice]:
    """Return the checkpoints that the form names. Raises: BadRequest."""
    steps: dict[str, StepChoice] = {}
    for name in components:
        text = request.form.get(f"step {name}", "")
        if not text:
            continue
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            reason = Message("{step!r} is no step of {component}", text[:40], name[:60])
            raise BadRequest(reason=reason)
        steps[name] = StepChoice(step_index=int(text))
    return steps


def _told(done: ChangedModel, sentence: str) -> str:
    """Return a sentence and what each site said."""
    sites = [
        f"{site}: {t('done') if not reply.retcode else told(verbatim(reply.retmsg, 300))}"
        for site, reply in done.outcome.replies.items()
    ]
    return " ".join([sentence, "; ".join(sites)])


def _key(model: str, version: str) -> ModelKey:
    """Return the site's version that an address names. Raises: ModelNotFound."""
    site = site_of_query(request.form.get("site", "") or request.args.get("site", ""))
    return services().models.views.story(model_id_of_path(model), version, site).key


def _back(model: str, version: str) -> str:
    return came_from(f"/board/models/{model}/{version}")
