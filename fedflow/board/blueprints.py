"""Every blueprint of the board: `board_...` of the modules of this package."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

from flask import Blueprint

import fedflow.board


def _blueprints() -> tuple[Blueprint, ...]:
    found: dict[str, Blueprint] = {}
    for one in pkgutil.iter_modules(fedflow.board.__path__):
        if one.name != "blueprints":
            for name, value in vars(import_module(f"fedflow.board.{one.name}")).items():
                if isinstance(value, Blueprint) and name.startswith("board_"):
                    found[name] = value
    return tuple(found.values())


BLUEPRINTS: Final = _blueprints()
