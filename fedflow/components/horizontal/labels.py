"""The classes of a horizontal training: the labels of all members together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.components.horizontal.rounds import Newcomer
from fedflow.components.training.one_vs_rest import MAX_CLASSES
from fedflow.sdk import BadData, Context, GroupDiffers, Role, Site

CLASSES: Final = "classes"  #: of what a newcomer says of itself, and of a state's notes
_SHOWN: Final = 10


def common_classes(newcomers: Mapping[Site, Newcomer]) -> list[Any]:
    """Return the labels of all members together, sorted.

    Raises: BadData: a member's are none, they have different types, or there is one in all.
        GroupDiffers: a member has several labels, and none of them is another member's.
    """
    labels = {site: classes_of(site, one) for site, one in newcomers.items()}
    found = set().union(*labels.values())
    if len({type(one) for one in found}) > 1:
        raise BadData(where="labels", reason="they are of different types at different parties")
    if len(found) < 2:
        raise BadData(where="labels", reason="all parties have one and the same class")
    by_role = sorted(labels, key=lambda site: site.role is Role.GUEST)  # a guest is right
    for site in by_role if len(labels) > 1 else ():
        others = set().union(*(labels[other] for other in labels if other != site))
        if len(labels[site]) > 1 and not labels[site] & others:
            first = next(other for other in reversed(by_role) if other != site)
            raise GroupDiffers(
                site=site,
                first=first,
                path="the labels, of which they have none in common",
                value=_shown(labels[site]),
                other=_shown(labels[first]),
            )
    return sorted(found)


def classes_of(site: Site, newcomer: Newcomer) -> set[Any]:
    """Return the labels that a member says it has. Raises: BadData: they are none."""
    classes = newcomer.about.get(CLASSES)
    if not isinstance(classes, list) or not 0 < len(classes) <= MAX_CLASSES:
        raise BadData(where=f"{site}'s data", reason="has no possible classes")
    if not all(type(label) in {int, float, str, bool} for label in classes):
        raise BadData(where=f"{site}'s data", reason="has no possible classes")
    return set(classes)


def warn_of_missing(ctx: Context, own: Sequence[Any], classes: Sequence[Any]) -> None:
    """Warn if this party has no row of some class. Raises: RefusedAsStrict."""
    if missing := set(classes) - set(own):
        ctx.warn(
            "LacksClasses",
            f"{ctx.site} has no rows with the label {_shown(missing)}, which other parties have",
            hint="If labels mean something else here, LabelTransform makes them equal.",
            path="train_data",
        )


def _shown(labels: set[Any]) -> str:
    shown = sorted(labels)
    more = ", ..." if len(shown) > _SHOWN else ""
    return ", ".join(str(one)[:40] for one in shown[:_SHOWN]) + more
