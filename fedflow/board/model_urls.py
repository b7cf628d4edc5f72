"""Addresses of the pages of models. A model id has `#`, for which `~` stands in paths."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from fedflow.base.errors.models import ModelNotFound
from fedflow.domain.models.lists import ModelLine
from fedflow.domain.models.model import ModelKey
from fedflow.domain.site import Site


def version_url(key: ModelKey, tab: str = "", **query: object) -> str:
    """Return the address of a version's page, as one site has it."""
    model = quote(key.model_id.replace("#", "~"), safe="~")
    path = f"/board/models/{model}/{quote(key.model_version, safe='')}"
    path += f"/{quote(tab, safe='/')}" if tab else ""
    return f"{path}?{urlencode({'site': key.site.key, **query})}"


def line_url(line: ModelLine) -> str:
    """Return the address of a version's page."""
    return version_url(line.key)


def model_id_of_path(part: str) -> str:
    """Return the model id that a part of a path stands for."""
    return part.replace("~", "#")


def site_of_query(text: str) -> Site | None:
    """Return the site that `?site=` names, None if it names none. Raises: ModelNotFound."""
    if not text:
        return None
    try:
        return Site.from_key(text)
    except ValueError as exc:
        raise ModelNotFound(model=f"a model of {text[:100]}") from exc
