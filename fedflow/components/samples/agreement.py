"""What all members of horizontal rounds must have in common: columns, and parameters that count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from fedflow.components.horizontal.packing import Layout
from fedflow.components.horizontal.rounds import Newcomer, RoundState
from fedflow.sdk import BadData, GroupDiffers, Site
from fedflow.sdk.decoding import read_as

P = TypeVar("P", bound=msgspec.Struct)
_IN_WORDS: Final = {
    "columns": "the columns",
    "names": "the columns' names or order",
}  #: fields of plans that are no parameters


def digest_of(names: Sequence[str]) -> str:
    """Return a name of column names in order, which does not tell what they are."""
    return hashlib.sha256(json.dumps(list(names)).encode()).hexdigest()


def agreed(newcomers: Mapping[Site, Newcomer], kind: type[P]) -> P:
    """Return the plan that all members say of themselves, for the first state of rounds.

    The plan's class checks itself in `__post_init__`, with a ValueError.

    Raises: GroupDiffers: two members' plans differ; it names them. BadData: one has no plan.
    """
    plans: dict[Site, P] = {}
    for site, newcomer in sorted(newcomers.items(), key=lambda pair: pair[0].key):
        try:
            plans[site] = plan_in(newcomer.about, kind)
        except ValueError as exc:
            raise BadData(where=f"what {site} says of itself", reason=str(exc)) from exc
    (first, plan), *others = plans.items()
    for site, other in others:
        names = plan.__struct_fields__
        differ = [name for name in names if getattr(plan, name) != getattr(other, name)]
        if differ:
            raise GroupDiffers(
                site=site,
                first=first,
                path=", ".join(_IN_WORDS.get(name, name) for name in differ),
                value=_short(other, differ),
                other=_short(plan, differ),
            )
    return plan


def _short(plan: msgspec.Struct, names: Sequence[str]) -> str:
    return ", ".join(str(getattr(plan, name))[:20] for name in names)


def refusal(newcomer: Newcomer, plan: msgspec.Struct) -> str | None:
    """Return why a late member does not fit to the plan of the others, None if it does."""
    try:
        own = plan_in(newcomer.about, type(plan))
    except ValueError as exc:
        return str(exc)
    return None if own == plan else "its columns or parameters are others"


def mistake_in(state: RoundState, layout: Callable[[RoundState], Layout]) -> str | None:
    """Return why a state is none of these rounds, None if its layout can be computed."""
    try:
        layout(state)
    except (LookupError, TypeError, ValueError):
        return "its state is of another run"
    return None


def plan_in(value: object, kind: type[P]) -> P:
    """Return a plan as a state or a member has it. Raises: ValueError: it is none."""
    try:
        return read_as(value, kind)
    except msgspec.ValidationError as exc:
        raise ValueError(f"no plan of these rounds: {exc}") from exc
