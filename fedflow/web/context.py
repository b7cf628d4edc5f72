"""What the running application was built with."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flask import Flask, current_app

from fedflow.app.services import Services
from fedflow.base.values import dataclass
from fedflow.web.settings import WebSettings

if TYPE_CHECKING:
    from fedflow.web.auth import ClientSignatures
    from fedflow.web.mounts import Mounts

_NAME = "fedflow"


@dataclass(frozen=True, kw_only=True)
class Built:
    """What one server's applications have in common."""

    services: Services
    settings: WebSettings
    clients: ClientSignatures | None
    mounts: Mounts


def put(app: Flask, built: Built) -> None:
    """Keep the parts with the application."""
    app.extensions[_NAME] = built


def built_of(app: Flask) -> Built:
    """Return the parts of an application."""
    return cast(Built, app.extensions[_NAME])


def built() -> Built:
    """Return the parts of the application that serves this request."""
    return cast(Built, current_app.extensions[_NAME])


def services() -> Services:
    """Return the use cases."""
    return built().services
