"""`/board/models`: versions of models, the story of one, its contents, what differs between two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flask import Response, request

from fedflow.app.models.model_views import ModelStory, used_version
from fedflow.base.errors.models import ModelComponentNotFound, ModelDamaged, ModelNotFound
from fedflow.base.errors.requests import BadRequest
from fedflow.board.language import t
from fedflow.board.model_urls import (
    line_url,
    model_id_of_path,
    site_of_query,
    version_url,
)
from fedflow.board.page import board_blueprint, page
from fedflow.board.presenters import model_diff
from fedflow.board.presenters.document_diff import DocumentComparison, compare
from fedflow.board.presenters.masking import masked
from fedflow.board.presenters.model_diff import ComponentComparison
from fedflow.board.presenters.model_history import HistoryItem, draw
from fedflow.board.presenters.models.registry import sections_of
from fedflow.board.presenters.models.sections import HeatMap, Section, Tree
from fedflow.board.presenters.models.selected import shown
from fedflow.board.presenters.models.visible import own_meta, own_param
from fedflow.board.presenters.paging import ListPage, number_of, whole
from fedflow.board.presenters.results import headline, tiles
from fedflow.board.urls import component_url, site_url
from fedflow.domain.models.lists import ModelKind, ModelList, kind_of
from fedflow.domain.models.model import ModelComponent, ModelContent, ModelKey
from fedflow.domain.records import JobRecord
from fedflow.domain.site import Role, Site
from fedflow.web.context import services
from fedflow.wire.model_fields import dag_components, seen_conf

board_models = board_blueprint("board_models", "/models")

SIZES: Final = (20, 50, 200)  #: versions on a page of the list


# --- the list -------------------------------------------------------------------------------------


@board_models.get("")
def models() -> Response:
    """Show the versions that are here, newest first."""
    size = whole(_text("size"), SIZES[0])
    number = number_of(_text("page"))
    size = size if size in SIZES else SIZES[0]
    which = ModelList(
        text=_text("text"),
        role=_role(_text("role")),
        party_id=_text("party") or None,
        kind=_kind(_text("kind")),
        module=_text("module"),
        tag=_text("tag"),
        with_empty=bool(_text("empty")),
        limit=size,
        offset=(number - 1) * size,
    )
    found = services().models.views.page(which)
    is_filtered = any(_text(n) for n in ("text", "role", "party", "kind", "module", "tag", "empty"))
    return page(
        "models.html",
        title=t("Models"),
        nav="models",
        lines=[
            (
                line,
                line_url(line),
                found.tags.get(line.key.model_version, ()),
                found.jobs.get(line.key),
            )
            for line in found.lines
        ],
        headline=headline,
        paging=ListPage(number=number, size=size, count=found.count),
        choices=services().models.views.choices(),
        kinds=[(kind.value, kind_word(kind)) for kind in ModelKind],
        kind_word=kind_word,
        roles=[role.value for role in Role if role is not Role.LOCAL],
        given={n: _text(n) for n in ("text", "role", "party", "kind", "module", "tag", "empty")},
        sizes=SIZES,
        size=size,
        is_filtered=is_filtered,
    )


def _name(story: ModelStory) -> str:
    """Return what people call a version: as the job that trained it."""
    named = "" if story.job is None else story.job.name
    return named or t("Model {version}", version=story.key.model_version[:40])


def _component_url(story: ModelStory) -> Callable[[str], str]:
    """Return what gives the address of a component of the job that trained a version."""
    job_id = "" if story.job is None else story.job.key.job_id
    return lambda component: component_url(job_id, story.key.site, component)


def kind_word(kind: ModelKind) -> str:
    """Return what a kind of version is called."""
    return {
        ModelKind.TRAINED: t("trained"),
        ModelKind.DEPLOYED: t("deployed"),
        ModelKind.IMPORTED: t("imported"),
    }[kind]


# --- one version ----------------------------------------------------------------------------------


@board_models.get("/<model>/<version>")
def model_version(model: str, version: str) -> Response:
    """Show one site's part of a version, or what differs from another one (`?with=`)."""
    story = _story(model, version)
    if request.args.get("with"):
        return _compared(story, _text("with"))
    found = story.version
    damages = services().models.views.damages(story.key) if _text("check") else None
    return page(
        "model.html",
        title=_name(story),
        nav="models",
        story=story,
        name=_name(story),
        tiles=() if story.job is None else tiles(story.job.figures),
        job_component_url=_component_url(story),
        version=found,
        kind=None
        if found is None
        else kind_word(kind_of(parent=found.parent, imported=found.imported)),
        address=version_url(story.key),
        sites=[(site, version_url(_at(story.key, site))) for site in story.own_sites],
        drawing=draw(_columns(story)),
        children=[(line, line_url(line)) for line in story.children],
        parent=None if story.parent is None else (story.parent, line_url(story.parent)),
        parent_version=_parent_version(story),
        users=[(job, used_version(job), _job_url(job)) for job in story.users],
        components=[_component_row(story, c, damages) for c in story.components],
        checkpoints=_checkpoints(story),
        damages=damages,
        others=[
            line for line in services().models.views.versions_of(story.key) if line.key != story.key
        ],
        job_address=None if story.job is None else _job_url(story.job),
        deployable=_deployable(story),
    )


@board_models.get("/<model>/<version>/definition")
def model_definition(model: str, version: str) -> Response:
    """Show what a version was trained with and predicts with, as this site may see it."""
    story = _story(model, version)
    if story.version is None:
        raise ModelNotFound(model=str(story.key)[:300])
    found = story.version
    return page(
        "model_definition.html",
        title=t("Definition of model {version}", version=version[:40]),
        nav="models",
        story=story,
        address=version_url(story.key),
        train_dsl=found.train_dsl,
        inference_dsl=found.inference_dsl or None,
        conf=_own_conf(story),
    )


@board_models.get("/<model>/<version>/components/<component>")
def model_component(model: str, version: str, component: str) -> Response:
    """Show what one component keeps in a version at this site."""
    story = _story(model, version)
    found = next((c for c in story.components if c.component == component), None)
    if found is None:
        raise ModelComponentNotFound(model=story.key, component=component[:100])
    content = services().models.views.content(found)
    role, asked = story.key.site.role, request.args.to_dict()
    sections: list[Section] = []
    if content is not None:
        sections = sections_of(role, content.param_name, content.param, content.meta, asked)
    drawn = [one for one in sections if not isinstance(one, HeatMap | Tree)]
    return page(
        "model_component.html",
        title=t("{component} of model {version}", component=component[:60], version=version[:40]),
        nav="models",
        story=story,
        address=version_url(story.key),
        component=found,
        shown=shown(drawn, asked),
        param=None if content is None else _own_param(story.key.site, content),
        meta=None if content is None else own_meta(role, content.meta),
        parameters=masked(found.run_parameters),
        is_arbiter=role is Role.ARBITER,
    )


# --- what differs ---------------------------------------------------------------------------------


def _compared(story: ModelStory, other_version: str) -> Response:
    """Show what differs between a version and another one of the same model, at the same site."""
    key = story.key
    other = services().models.views.story(key.model_id, other_version, key.site)
    if story.version is None or other.version is None:
        raise BadRequest(reason="a version that is being trained cannot be compared yet")
    rows = _component_rows(story, other)
    return page(
        "model_diff.html",
        title=t("Two versions of a model"),
        nav="models",
        story=story,
        other=other,
        address=version_url(key),
        other_address=version_url(other.key),
        swapped=version_url(other.key, **{"with": key.model_version}),
        documents=[
            (
                t("Training DSL"),
                compare(story.version.train_dsl, other.version.train_dsl),
            ),
            (
                t("Predict DSL"),
                compare(story.version.inference_dsl, other.version.inference_dsl),
            ),
            (t("Conf"), compare(_own_conf(story), _own_conf(other))),
            (t("Parameters of the components"), _parameters_compared(story, other)),
        ],
        components=rows,
        change_words={"added": t("added"), "removed": t("removed"), "changed": t("changed")},
    )


def _parameters_compared(story: ModelStory, other: ModelStory) -> DocumentComparison:
    def parameters(of: ModelStory) -> dict[str, Any]:
        return {c.component: masked(c.run_parameters) for c in of.components}

    return compare(parameters(story), parameters(other))


def _component_rows(story: ModelStory, other: ModelStory) -> list[ComponentComparison]:
    before = {c.component: c for c in story.components}
    after = {c.component: c for c in other.components}
    site = story.key.site
    return [_component_compared(site, n, before.get(n), after.get(n)) for n in {**before, **after}]


def _component_compared(
    site: Site, name: str, before: ModelComponent | None, after: ModelComponent | None
) -> ComponentComparison:
    known = before or after
    assert known is not None  # noqa: S101  # one of them has the name
    facts: dict[str, Any] = {
        "name": name,
        "module": known.module,
        "size_before": None if before is None else before.size_bytes,
        "size_after": None if after is None else after.size_bytes,
    }
    if before is None or after is None:
        return ComponentComparison(**facts, same=False)
    if (before.meta.sha256, before.param.sha256) == (after.meta.sha256, after.param.sha256):
        return ComponentComparison(**facts, same=True)
    try:
        contents = [services().models.views.content(c) for c in (before, after)]
    except ModelDamaged as exc:
        return ComponentComparison(**facts, same=False, trouble=exc.message)
    if contents[0] is None or contents[1] is None:
        trouble = t("Too large to be compared on this page; export both versions.")
        return ComponentComparison(**facts, same=False, trouble=trouble)
    params = [_own_param(site, c) for c in contents if c is not None]
    metas = [own_meta(site.role, c.meta) for c in contents if c is not None]
    rows, more = model_diff.weights(params[0], params[1])
    return ComponentComparison(
        **facts,
        same=False,
        weights=rows,
        more_weights=more,
        meta=compare(metas[0], metas[1]),
        param=compare(*[{k: v for k, v in p.items() if k != "weight"} for p in params])
        if rows
        else compare(params[0], params[1]),
    )


# --- parts ----------------------------------------------------------------------------------------


def _story(model: str, version: str) -> ModelStory:
    """Return the site's version that an address names. Raises: ModelNotFound."""
    site = site_of_query(request.args.get("site", ""))
    return services().models.views.story(model_id_of_path(model), version, site)


def _own_param(site: Site, content: ModelContent) -> dict[str, Any]:
    return dict(own_param(site.role, content.param_name, content.param, content.meta))


def _own_conf(story: ModelStory) -> Any:
    """Return the training conf as this site may see it."""
    version = story.version
    if version is None or story.key.site.role is Role.ARBITER:
        return {}
    return masked(seen_conf(version, version.train_conf))


def _component_row(
    story: ModelStory, component: ModelComponent, damages: dict[str, str] | None
) -> dict[str, Any]:
    key = story.key
    trouble = "" if damages is None else damages.get(component.component, "")
    if component.component in story.gone and not trouble:
        trouble = t("Its contents are not in the store of contents.")
    job_id = _training_job(story)
    return {
        "it": component,
        "url": version_url(key, f"components/{component.component}"),
        "view": component_url(job_id, key.site, component.component, "model") if job_id else None,
        "trouble": trouble,
    }


def _training_job(story: ModelStory) -> str:
    """Return the job that trained a version, if this server has it."""
    return "" if story.job is None else story.job.key.job_id


def _parent_version(story: ModelStory) -> str:
    info = story.version.parent_info if story.version is not None else None
    found = info.get("parent_model_version") if isinstance(info, dict) else None
    return found if isinstance(found, str) else ""


def _checkpoints(story: ModelStory) -> list[tuple[str, list[Any]]]:
    """Return the checkpoints of each component that has any."""
    by_component: dict[str, list[Any]] = {}
    for step in story.checkpoints:
        by_component.setdefault(step.component, []).append(step)
    return list(by_component.items())


def _deployable(story: ModelStory) -> list[dict[str, Any]]:
    """Return the components that a deploy may keep; none if this version cannot be deployed."""
    version = story.version
    if version is None or not version.parent or version.initiator != story.key.site:
        return []
    steps = dict(_checkpoints(story))
    return [
        {
            "name": one.component_name,
            "module": one.module,
            "steps": steps.get(one.component_name, []),
        }
        for one in dag_components(version.train_dsl)
    ]


def _columns(story: ModelStory) -> list[list[HistoryItem]]:
    """Return the history of a version: its source, itself, its children, the jobs that used it."""
    own, version = story.key.model_version, story.version
    source: list[HistoryItem] = []
    named = _parent_version(story)
    if named:
        url = "" if story.parent is None else line_url(story.parent)
        source = [HistoryItem(name=named, title=t("deployed from"), detail=named, url=url)]
    elif story.job is not None:
        url = _job_url(story.job)
        job_id = story.job.key.job_id
        source = [
            HistoryItem(
                name=f"job {job_id}", title=t("training job"), detail=job_id, url=url, kind="job"
            )
        ]
    elif version is not None:
        away = t("job not at this server")
        what = t("imported from an archive") if version.imported else away
        source = [HistoryItem(name="elsewhere", title=what, detail=version.job_id, kind="job")]
    this = HistoryItem(
        name=own, title=t("this version"), detail=own, of=tuple(i.name for i in source),
        is_current=True,
    )  # fmt: skip
    children = [
        HistoryItem(
            name=line.key.model_version, title=t("deployed"), detail=line.key.model_version,
            url=line_url(line), of=(own,), kind="child",
        )
        for line in story.children
    ]  # fmt: skip
    uses = [
        HistoryItem(
            name=f"use {job.key.job_id}", title=t("predict job"), detail=job.key.job_id,
            url=_job_url(job), of=(used_version(job),), kind="use",
        )
        for job in story.users
    ]  # fmt: skip
    return [source, [this], children, uses]


def _job_url(job: JobRecord) -> str:
    return site_url(job.key.job_id, job.key.site)


def _at(key: ModelKey, site: Site) -> ModelKey:
    return ModelKey(site=site, model_id=key.model_id, model_version=key.model_version)


def _text(name: str) -> str:
    return request.args.get(name, "").strip()[:600]


def _role(word: str) -> Role | None:
    return Role(word) if word in {role.value for role in Role} else None


def _kind(word: str) -> ModelKind | None:
    return ModelKind(word) if word in {kind.value for kind in ModelKind} else None
