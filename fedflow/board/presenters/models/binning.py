"""HeteroFeatureBinning: features with their information values, the bins of one of them.

A host's part has no statistics (they reveal labels) and the guest's has no split points of a
host: what is not there is shown as "-".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.board.language import t
from fedflow.board.presenters.models.decoding import (
    at,
    chosen,
    items,
    mapping,
    number,
    numbers,
    objects,
    texts,
)
from fedflow.board.presenters.models.sections import (
    Bars,
    Cell,
    ChoiceLink,
    ChoiceSection,
    Column,
    Facts,
    Groups,
    NoticeSection,
    Section,
    Table,
)
from fedflow.domain.site import Role

BARS: Final = 30  #: at most, of the chart of information values
CHART_BINS: Final = 60  #: at most, of the charts of one feature

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Party:
    """The bins of one party's columns."""

    name: str
    is_own: bool
    bins: Mapping[str, Any]


def binning(role: Role, param: Json, meta: Json, choices: Mapping[str, str]) -> list[Section]:
    """Return the features of a party, and the bins of the chosen one."""
    stages = {"train": "", "transform": "transform_"}
    there = [stage for stage, prefix in stages.items() if _has_bins(param, prefix)]
    if not there:
        return [NoticeSection(text=t("This site's model has no bins."))]
    stage = chosen(choices, "stage", there)
    prefix = stages[stage]
    labels = texts(param, f"{prefix}multi_class_result", "labels") or texts(
        param, "multi_class_result", "labels"
    )
    classes = [str(i) for i in range(len(labels))] if len(labels) > 2 else []
    label = chosen(choices, "label", classes)
    parties = _parties(param, prefix, int(label) if label else None)
    party = chosen(choices, "party", list(parties))
    one = parties[party]
    found: list[Section] = [_about(meta)]
    names = {"train": t("Training"), "transform": t("Prediction")}
    if len(there) > 1:
        options = [(stage, names[stage]) for stage in there]
        found.append(ChoiceSection(name="stage", label=t("Rows of"), options=options, chosen=stage))
    if classes:
        shown = [(key, labels[int(key)]) for key in classes]
        found.append(ChoiceSection(name="label", label=t("Class"), options=shown, chosen=label))
    if len(parties) > 1:
        shown = [(key, p.name) for key, p in parties.items()]
        found.append(
            ChoiceSection(name="party", label=t("Columns of"), options=shown, chosen=party)
        )
    anonymous = dict(zip(texts(param, "header"), texts(param, "header_anonymous"), strict=False))
    kept = {name: choices[name] for name in ("stage", "label", "party") if choices.get(name)}
    found += _features(one, role, anonymous, kept)
    feature = chosen(choices, "feature", list(one.bins))
    if feature:
        found += _bins(feature, mapping(one.bins, feature), role, has_cuts=one.is_own)
    return found


def _has_bins(param: Json, prefix: str) -> bool:
    own = mapping(param, f"{prefix}binning_result", "binning_result")
    hosts = objects(param, f"{prefix}host_results")
    return bool(own) or any(mapping(host, "binning_result") for host in hosts)


def _parties(param: Json, prefix: str, label: int | None) -> dict[str, _Party]:
    """Return the parties of whose columns something is known, with the bins of one class."""
    own = mapping(param, f"{prefix}binning_result")
    hosts = objects(param, f"{prefix}host_results")
    if label is not None:
        classes = mapping(param, f"{prefix}multi_class_result")
        own = mapping(at(items(classes, "results"), label)) or own
        count = len(items(classes, "labels")) or 1
        theirs = objects(classes, "host_results")
        hosts = [theirs[i] for i in range(label, len(theirs), count)] or hosts
    parties = {}
    for number_, result in enumerate((own, *hosts)):
        bins = mapping(result, "binning_result")
        if bins:
            name = f"{result.get('role', '')} {result.get('party_id', '')}".strip()
            parties[str(number_)] = _Party(name=name, is_own=number_ == 0, bins=bins)
    return parties


def _about(meta: Json) -> Facts:
    told = (
        (t("Method"), "method"), (t("Number of bins"), "bin_num"),
        (t("Adjustment factor"), "adjustment_factor"),
        (t("Constant columns left out"), "skip_static"),
    )  # fmt: skip
    pairs: list[tuple[str, Cell]] = [
        (title, meta[name])
        for title, name in told
        if isinstance(meta.get(name), str | int | float | bool)
    ]
    return Facts(title=t("How it was binned"), pairs=pairs)


def _features(
    party: _Party, role: Role, anonymous: Mapping[str, str], kept: Mapping[str, str]
) -> list[Section]:
    rows: list[Sequence[Cell]] = []
    values: list[tuple[str, float]] = []
    for name, result in party.bins.items():
        column = mapping(result)
        counted = bool(items(column, "event_count_array"))
        iv = number(column.get("iv")) if counted else None
        monotonic = bool(column.get("is_woe_monotonic")) if counted else None
        count = number(column.get("bin_nums"))
        link = ChoiceLink(text=name, choices={**kept, "feature": name})
        hidden = [anonymous.get(name)] if party.is_own else []
        rows.append((link, *hidden, count, iv, monotonic))
        if iv:
            values.append((name, iv))
    heads = [Column(title=t("Anonymous name"))] if party.is_own else []
    columns = (
        Column(title=t("Feature")), *heads, Column(title=t("Bins"), numeric=True),
        Column(title=t("IV"), numeric=True), Column(title=t("WOE monotonic")),
    )  # fmt: skip
    note = (
        ""
        if role is Role.GUEST
        else t("Information values and WOE reveal the labels: only the guest has them.")
    )
    found: list[Section] = [
        Table(
            id="features",
            title=t("Features of {party}", party=party.name or t("this site")),
            columns=columns,
            rows=rows,
            note=note,
        )
    ]
    values.sort(key=lambda one: -one[1])
    if values:
        more = t("The {n} greatest of {m}.", n=BARS, m=len(values)) if len(values) > BARS else ""
        found.append(Bars(title=t("Information value by feature"), bars=values[:BARS], note=more))
    return found


def _bins(name: str, column: Json, role: Role, *, has_cuts: bool) -> list[Section]:
    cuts = numbers(column, "split_points") if has_cuts else []
    events, others = numbers(column, "event_count_array"), numbers(column, "non_event_count_array")
    woe = numbers(column, "woe_array")
    count = max(len(cuts), len(events), len(woe), int(number(column.get("bin_nums")) or 0))
    labels = bin_names(cuts, count, texts(column, "bin_anonymous"))
    lists = (
        numbers(column, "iv_array"), woe, events, numbers(column, "event_rate_array"),
        others, numbers(column, "non_event_rate_array"), numbers(column, "optimal_metric_array"),
    )  # fmt: skip
    titles = (
        t("IV"), t("WOE"), t("Event count"), t("Event rate"), t("Non-event count"),
        t("Non-event rate"), t("Optimal metric"),
    )  # fmt: skip
    wanted = [i for i, values in enumerate(lists) if values or i < 6]
    rows = [(labels[place], *(at(lists[i], place) for i in wanted)) for place in range(len(labels))]
    found: list[Section] = [
        Table(
            id="bins",
            title=t("Bins of {feature}", feature=name[:200]),
            columns=(
                Column(title=t("Bin")),
                *(Column(title=titles[i], numeric=True) for i in wanted),
            ),
            rows=rows,
        )
    ]
    if 0 < len(labels) <= CHART_BINS and events and role is Role.GUEST:
        found.append(
            Groups(
                title=t("Events per bin of {feature}", feature=name[:200]),
                bins=labels,
                series=((t("Event count"), events), (t("Non-event count"), others)),
                stacked=True,
            )
        )
        found.append(
            Groups(
                title=t("WOE per bin of {feature}", feature=name[:200]),
                bins=labels,
                series=((t("WOE"), woe),),
                line=(t("WOE"), woe),
            )
        )
    return found


def bin_names(cuts: Sequence[float | None], count: int, anonymous: Sequence[str]) -> list[str]:
    """Return the bins as intervals, the last one open; without cuts as `bin_0`, `bin_1` ...

    One bin more than there are cuts is that of missing values.
    """
    if not cuts:
        return [at(anonymous, i) or f"bin_{i}" for i in range(count)]
    inner = [f"{cut:.6g}" if cut is not None else "?" for cut in cuts[:-1]]
    edges = ["-∞", *inner, "+∞"]
    names = [f"({low}, {high}{')' if high == '+∞' else ']'}" for low, high in pairwise(edges)]
    return [*names, *([t("missing")] * (count - len(names)))]
