"""The server's address and keys that `flow init` stored, in the user's own configuration folder.

The file is readable by its owner only. Instead of an address it may name a `service_conf.yaml`,
which is then read by every command, as FATE's client does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import platformdirs

from fedflow.base.decoding import decode_as
from fedflow.base.errors.requests import BadClientConf
from fedflow.base.values import dataclass

_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
"""Addresses to listen on -> where such a server is reached from this machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What `flow init` stored. Never printed with its keys."""

    ip: str | None = None
    port: int | None = None
    app_key: str | None = None
    secret_key: str | None = None
    server_conf_path: str | None = None

    @property
    def address(self) -> str | None:
        """Return `host:port`, None if none was stored."""
        if not self.ip or not self.port:
            return None
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"

    def __repr__(self) -> str:
        return f"<Stored {self.address or self.server_conf_path}>"


def stored_file() -> Path:
    """Return where the settings are stored."""
    return platformdirs.user_config_path("fedflow", appauthor=False) / "client.json"


def read_stored() -> Stored:
    """Return what was stored, with the address of the conf if one was named.

    Raises: BadClientConf: the file, or the conf that it names, cannot be read.
    """
    path = stored_file()
    try:
        found = decode_as(path.read_bytes(), Stored)
    except FileNotFoundError:
        return Stored()
    except OSError as exc:
        raise BadClientConf(path=path, reason=exc.strerror or str(exc)) from exc
    except msgspec.MsgspecError as exc:
        raise BadClientConf(path=path, reason=str(exc)) from exc
    return from_conf(Path(found.server_conf_path)) if found.server_conf_path else found


def write_stored(value: Stored) -> None:
    """Store settings for the owner's eyes only. Raises: BadClientConf: they cannot be written."""
    path = stored_file()
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
            file.write(msgspec.json.encode(value))
        part.replace(path)
    except OSError as exc:
        raise BadClientConf(path=path, reason=exc.strerror or str(exc)) from exc


def forget_stored() -> None:
    """Remove what was stored."""
    stored_file().unlink(missing_ok=True)


def from_conf(path: Path) -> Stored:
    """Return address and keys of a `service_conf.yaml`; `local.<name>` beside it overrides it.

    Raises: BadClientConf. Source: docs/reference/rest.md#client-settings.
    """
    conf = _yaml(path)
    beside = path.with_name(f"local.{path.name}")
    if beside.is_file():
        conf = {**conf, **_yaml(beside)}
    flow = _section(conf, "fateflow")
    client = _section(_section(conf, "authentication"), "client")
    keys = client if client.get("switch") else flow
    host, port = flow.get("host", "127.0.0.1"), flow.get("http_port", 9380)
    if not isinstance(host, str) or not isinstance(port, int):
        raise BadClientConf(path=path, reason="fateflow.host or fateflow.http_port is not right")
    return Stored(
        ip=_EVERYWHERE.get(host, host),
        port=port,
        app_key=_text(keys.get("http_app_key")),
        secret_key=_text(keys.get("http_secret_key")),
        server_conf_path=str(path),
    )


def _yaml(path: Path) -> dict[str, Any]:
    import yaml  # few need it, and every command imports this module

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise BadClientConf(path=path, reason=exc.strerror or str(exc)) from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise BadClientConf(path=path, reason=str(exc).replace("\n", " ")) from exc
    if not isinstance(found, dict):
        raise BadClientConf(path=path, reason="it holds no settings")
    return found


def _section(conf: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = conf.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str | None:
    return str(value) if value not in (None, "") else None
