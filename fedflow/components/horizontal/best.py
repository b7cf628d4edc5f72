"""The best round so far, as part of a state: its arrays, its loss and its number."""

from __future__ import annotations

from typing import Any

from fedflow.components.horizontal.packing import Arrays, Floats
from fedflow.components.horizontal.rounds import RoundState


def follow_best(
    state: RoundState, *, current: Arrays, measured: float, number: int, patience: int | None
) -> tuple[dict[str, Floats], dict[str, Any], bool]:
    """Return the best arrays, what the notes say of them, and whether nothing gets better any more.

    Args:
        current: what was measured, under the names that the best arrays have in a state.
        measured: its loss.
        number: the round that made it; -1: none did.
        patience: rounds without a smaller loss after which training may stop; None: never.
    """
    best, best_round = state.notes["best_loss"], state.notes["best_round"]
    if best is None or measured < best:
        return dict(current), {"best_loss": measured, "best_round": number}, False
    kept = {name: state.arrays[name] for name in current}
    stops = patience is not None and number - best_round >= patience
    return kept, {"best_loss": best, "best_round": best_round}, stops
