"""Every blueprint of the board: `board_...` of the modules of this package."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from flask import Blueprint

import fedflow.board


def blueprints() -> tuple[Blueprint, ...]:
    """Import all pages and return their blueprints, in the order of the modules' names."""
    found: dict[str, Blueprint] = {}
    for one in pkgutil.iter_modules(fedflow.board.__path__):
        for name, value in vars(import_module(f"fedflow.board.{one.name}")).items():
            if isinstance(value, Blueprint) and name.startswith("board_"):
                found[name] = value
    return tuple(found.values())
