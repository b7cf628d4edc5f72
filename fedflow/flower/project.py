"""A Flower project: a folder with a pyproject.toml that names its apps and their run config.

The project's code is that of the own site's administrators: it lies in the folder of projects, and
no other party sends any. Only its name comes from a job's conf, so the name is what is checked.
"""

from __future__ import annotations

import importlib
import re
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

#: releases of flwr whose internals are known to be as `messages` and `results` use them
TESTED: Final = ("1.38", "1.39", "1.40", "1.41", "1.42")
Scalar: TypeAlias = bool | int | float | str
Kind: TypeAlias = Literal["serverapp", "clientapp"]

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_REFERENCE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_FILE_BYTES: Final = 256 * 1024
_DEPTH: Final = 20  #: of nested keys
_SHOWN: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """What a project's pyproject.toml says."""

    folder: Path
    name: str
    version: str
    serverapp: str  #: `module:attribute`
    clientapp: str  #: `module:attribute`
    config: Mapping[str, Scalar] = field(default_factory=dict)  #: nested keys joined by dots

    def run_config(self, given: Mapping[str, Any]) -> dict[str, Scalar]:
        """Return the project's config with `given` over it, whose keys may be nested.

        Raises: ValueError: a key that the project has not, or a value of another type.
        """
        merged = dict(self.config)
        for key, value in flat(given):
            if key not in merged:
                known = ", ".join(sorted(merged)) or "none"
                raise ValueError(
                    f"{key[:_SHOWN]!r} is not in [tool.flwr.app.config]; known are {known}"
                )
            merged[key] = _as_type_of(merged[key], value, key)
        return merged

    def load(self, kind: Kind) -> Any:
        """Import an app; the project's folder comes first where modules are looked for.

        Raises: AttributeError, and whatever importing raises.
        """
        sys.path.insert(0, str(self.folder))
        module, _, attribute = getattr(self, kind).partition(":")
        loaded: Any = importlib.import_module(module)
        for part in attribute.split("."):
            loaded = getattr(loaded, part)
        return loaded


def read_project(projects: Path, name: str) -> Project:
    """Return the project in a folder below `projects`.

    Raises: ValueError: there is none that can be used.
    """
    folder = _folder(projects, name)
    file = folder / "pyproject.toml"
    if not file.is_file():
        raise ValueError(f"{name[:_SHOWN]!r} holds no pyproject.toml")
    try:
        with file.open("rb") as opened:
            text = opened.read(_FILE_BYTES + 1)
        if len(text) > _FILE_BYTES:
            raise ValueError(f"longer than {_FILE_BYTES} bytes")
        content = tomllib.loads(text.decode())
        app = content["tool"]["flwr"]["app"]
        apps = app["components"]
        about = content.get("project", {})
        project = Project(
            folder=folder,
            name=str(about.get("name", name)),
            version=str(about.get("version", "")),
            serverapp=_reference(apps, "serverapp"),
            clientapp=_reference(apps, "clientapp"),
            config=dict(flat(app.get("config", {}))),
        )
    except KeyError as exc:
        raise ValueError(
            f"its pyproject.toml is not that of a Flower project: {exc} is missing"
        ) from exc
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise ValueError(f"its pyproject.toml cannot be used: {exc}") from exc
    return project


def flat(
    nested: Mapping[str, Any], *, above: str = "", depth: int = 0
) -> Iterator[tuple[str, Scalar]]:
    """Yield keys joined by dots, with their values.

    Raises: ValueError: a value is no number, text or truth value.
    """
    if depth > _DEPTH:
        raise ValueError(f"keys are nested deeper than {_DEPTH} levels")
    for key, value in nested.items():
        path = f"{above}.{key}" if above else str(key)
        if isinstance(value, Mapping):
            yield from flat(value, above=path, depth=depth + 1)
        elif isinstance(value, bool | int | float | str):
            yield path, value
        else:
            what = type(value).__name__
            said = f"{path[:_SHOWN]!r} is a {what}; Flower takes numbers, texts and truth values"
            raise ValueError(said)  # noqa: TRY004  of a conf or file, so it is a bad value


def installed_version() -> str:
    """Return the version of flwr in this interpreter; nothing is imported.

    Raises: ValueError: there is none, or it is not a tested one.
    """
    tested = f"{TESTED[0]} to {TESTED[-1]}"
    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise ValueError(f"flwr is not installed in {sys.prefix}; tested is {tested}") from None
    if ".".join(found.split(".")[:2]) not in TESTED:
        raise ValueError(f"flwr {found} is installed in {sys.prefix}; tested is {tested}")
    return found


def _folder(projects: Path, name: str) -> Path:
    """Return a project's folder.

    Raises: ValueError: the name leads elsewhere, or every user may write to it.
    """
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, `_`, `-` and `.`, with `/` between"
        raise ValueError(f"{name[:_SHOWN]!r} is no name of a folder: {allowed}")
    root = projects.resolve()
    folder = (root / name).resolve()
    if not folder.is_relative_to(root) or not folder.is_dir():
        raise ValueError(
            f"there is no folder {name[:_SHOWN]!r} among the Flower projects of this site"
        )
    for path in (folder, folder / "pyproject.toml"):
        if path.exists() and path.stat().st_mode & stat.S_IWOTH:
            raise ValueError(
                f"every user may write to {name[:_SHOWN]!r}; `chmod -R o-w` takes that right away"
            )
    return folder


def _reference(apps: Mapping[str, Any], kind: Kind) -> str:
    """Return where an app is. Raises: KeyError, ValueError."""
    found = str(apps[kind])
    if not _REFERENCE.fullmatch(found):
        raise ValueError(f"{kind} = {found[:_SHOWN]!r} must be `module:attribute`")
    return found


def _as_type_of(default: Scalar, value: Scalar, key: str) -> Scalar:
    """Return a value as the project's own is. Raises: ValueError: it is of another type."""
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(default):
        wanted, got = type(default).__name__, type(value).__name__
        raise ValueError(f"{key[:_SHOWN]!r} is a {wanted} in [tool.flwr.app.config], not a {got}")
    return value
