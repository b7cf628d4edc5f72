"""Parameters of DataStatistics."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from fedflow.components.statistics.describing import BASIC, OTHERS, is_statistic
from fedflow.sdk import Params

SUMMARY = "summary"  #: stands for the basic statistics
DESCRIBE = "describe"  #: stands for these, alone
DESCRIBED = ("count", "mean", "stddev", "min", "max")


class DataStatisticsParams(Params, frozen=True, kw_only=True):
    """All parameters of DataStatistics, with FATE's names and defaults."""

    #: `summary` (the basic ones), `describe` (also `count`), or names: `count`, `variance`,
    #: quantiles such as `95%`, and the basic ones, which are computed whatever is asked for
    statistics: str | list[str] = SUMMARY
    column_names: list[str] | None = field(default_factory=list)  #: features, beside the indexes
    column_indexes: int | list[int] | None = -1  #: features by position from 0; -1: all
    #: values that count as missing; what is no number has no effect
    abnormal_list: list[int | float | str] | None = field(default_factory=list)
    #: accepted: quantiles are exact, which is within any error
    quantile_error: Annotated[float, Meta(ge=0, le=1)] = 1e-4
    bias: bool = True  #: skewness and kurtosis are not corrected for bias
    need_run: bool = True  #: false: the data pass through

    def check(self) -> None:
        for name in self.asked:
            if not is_statistic(name):
                known = ", ".join((SUMMARY, *BASIC, *OTHERS))
                raise ValueError(f"statistics: {name!r} is not one of {known}, 95% (a quantile)")
        if self.need_run and self.column_indexes in (None, []) and not self.column_names:
            raise ValueError("column_indexes: name features here or in column_names; -1 means all")
        if isinstance(self.column_indexes, int) and self.column_indexes < -1:
            raise ValueError("column_indexes: must be -1, a position, or a list of positions")

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the names asked for, without those of `summary`."""
        if self.statistics == DESCRIBE:
            return DESCRIBED
        given = [self.statistics] if isinstance(self.statistics, str) else self.statistics
        return tuple(name for name in given if name != SUMMARY)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Return all statistics to compute: the basic ones, then the others asked for."""
        return tuple(dict.fromkeys((*BASIC, *self.asked)))

    @property
    def abnormal(self) -> frozenset[float]:
        """Return the numbers among the abnormal values."""
        return frozenset(
            number for value in self.abnormal_list or () if (number := _number(value)) is not None
        )


def _number(value: float | str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
