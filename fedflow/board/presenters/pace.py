"""How a training goes on at one site: its iterations, and where its loss is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fedflow.base.values import dataclass
from fedflow.domain.records import Metric
from fedflow.domain.site import Site

TYPES: Final = ("ROUND_SECONDS", "LOSS")  #: of metrics, which tell it
_NAME: Final = "round_seconds"
_RECENT: Final = 10  #: iterations whose mean counts
_DRAWN: Final = 60  #: points of a line of losses; fewer than twice as many are drawn
_LONGEST: Final = 1e9  #: seconds of an iteration


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPace:
    """How far a training is."""

    done: int  #: iterations
    of: int | None  #: so many there are at most
    each_ms: int  #: mean of the last iterations
    loss_at: Site | None  #: another site, which learns the loss
    losses: tuple[float, ...] = ()  #: of this site, one per iteration

    @property
    def left_ms(self) -> int | None:
        """Return how long it takes at most if it goes on like this, None if nobody knows."""
        return None if self.of is None else max(0, self.of - self.done) * self.each_ms

    @property
    def line(self) -> str:
        """Return the points of a line of the losses in a box of 120 x 24; empty for less than 2."""
        kept = self.losses[:: max(1, len(self.losses) // _DRAWN)]
        if len(kept) < 2:
            return ""
        low, high = min(kept), max(kept)
        height, step = (high - low) or 1.0, 120 / (len(kept) - 1)
        return " ".join(
            f"{n * step:.1f},{2 + 20 * (high - loss) / height:.1f}" for n, loss in enumerate(kept)
        )


def pace(found: Iterable[Metric]) -> TrainingPace | None:
    """Return how a training goes, from its metrics; None: it tells nothing of its iterations."""
    metrics = {(one.meta.get("metric_type"), one.name): one for one in found}
    rounds = metrics.get(("ROUND_SECONDS", _NAME))
    points = [] if rounds is None else _numbers(rounds)
    if rounds is None or not points:
        return None
    done = int(points[-1][0]) + 1
    last = [seconds for _, seconds in points[-_RECENT:]]
    most = rounds.meta.get("of")
    loss = metrics.get(("LOSS", "loss"))
    return TrainingPace(
        done=done,
        of=most if type(most) is int and done <= most else None,
        each_ms=round(1000 * sum(last) / len(last)),
        loss_at=_site(rounds.meta.get("loss_at")) if loss is None else None,
        losses=() if loss is None else tuple(y for _, y in _numbers(loss)),
    )


def _numbers(metric: Metric) -> list[tuple[float, float]]:
    return [
        (x, y)
        for x, y in metric.points
        if isinstance(x, int | float) and isinstance(y, int | float) and abs(x) + abs(y) < _LONGEST
    ]


def _site(key: object) -> Site | None:
    try:
        return Site.from_key(str(key)) if key else None
    except ValueError:
        return None
