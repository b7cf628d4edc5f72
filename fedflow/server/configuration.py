"""Reads a server's settings: the conf file, then the environment, then the command line.

Environment: `FEDFLOW__<KEY>[__<KEY>]=value`, for example `FEDFLOW__FATEFLOW__HTTP_PORT=9381`;
values are read as YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedflow.base.errors.start import BadSetting, ListenerNotSafe
from fedflow.base.settings import LOOPBACK, Settings, parse_settings

_PREFIX = "FEDFLOW__"


def load_settings(
    conf: Path | None, *, environment: Mapping[str, str], overrides: Mapping[str, Any]
) -> Settings:
    """Return the settings of a server; later sources win.

    Raises: BadSetting: a file that cannot be read or a wrong key. ListenerNotSafe.
    """
    settings = parse_settings(
        read_values(conf, environment=environment, overrides=overrides, prefix=_PREFIX)
    )
    check_listeners(settings)
    return settings


def read_values(
    conf: Path | None,
    *,
    environment: Mapping[str, str],
    overrides: Mapping[str, Any],
    prefix: str,
) -> dict[str, Any]:
    """Return the keys and values of all sources; later sources win.

    `prefix` is that of variables of the environment. Raises: BadSetting: it cannot be read.
    """
    values: dict[str, Any] = _read(conf) if conf is not None else {}
    _merge(values, _from_environment(environment, prefix))
    _merge(values, overrides)
    return values


def check_listeners(settings: Settings) -> None:
    """Refuse listeners that others could reach without protection. Raises: ListenerNotSafe."""
    if settings.insecure:
        return
    listen = settings.fateflow
    if listen.parties_host not in LOOPBACK and not settings.tls.on:
        raise ListenerNotSafe(
            listener="The gRPC server", address=listen.parties_host, missing="TLS (tls.ca, ...)"
        )
    if listen.host in LOOPBACK:
        return
    if not settings.authentication.client.switch:
        raise ListenerNotSafe(
            listener="The REST API", address=listen.host, missing="authentication.client"
        )
    if not listen.http_behind_tls_proxy:
        raise ListenerNotSafe(
            listener="The REST API",
            address=listen.host,
            missing="TLS (set fateflow.http_behind_tls_proxy if a proxy terminates it)",
        )
    if settings.board.switch and not settings.board_asks:
        raise ListenerNotSafe(listener="The board", address=listen.host, missing="board.sign_in")


def _read(conf: Path) -> dict[str, Any]:
    try:
        text = conf.read_text(encoding="utf-8")
    except OSError as exc:
        raise BadSetting(path=str(conf), reason=exc.strerror or str(exc)) from exc
    except UnicodeDecodeError as exc:
        raise BadSetting(path=str(conf), reason=f"not YAML: {exc}") from exc
    values = _parsed(text, path=str(conf))
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise BadSetting(path=str(conf), reason="the top level must be keys and values")
    return values


def _parsed(text: str, *, path: str) -> object:
    """Return what a YAML text says; `path` is named in errors. Raises: BadSetting."""
    import yaml  # a server that is given options alone does without

    try:
        parsed: object = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise BadSetting(path=path, reason=f"not YAML: {exc}") from exc
    return parsed


def _from_environment(environment: Mapping[str, str], prefix: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in environment.items():
        if not name.startswith(prefix):
            continue
        keys = [key.lower() for key in name.removeprefix(prefix).split("__")]
        value = _parsed(text, path=name)
        level = values
        for key in keys[:-1]:
            level = level.setdefault(key, {})
            if not isinstance(level, dict):
                raise BadSetting(path=name, reason=f"another variable gives {key!r} a value")
        level[keys[-1]] = value
    return values


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value
