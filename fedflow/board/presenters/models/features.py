"""Models of steps that prepare features: statistics, stability, filling, scaling, encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.board.language import t
from fedflow.board.presenters.models.decoding import (
    at,
    chosen,
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
    Column,
    Facts,
    Groups,
    Section,
    Table,
)
from fedflow.domain.site import Role

BARS: Final = 30  #: at most, of one chart

Json = Mapping[str, Any]
Choices = Mapping[str, str]


def statistics(role: Role, param: Json, meta: Json, choices: Choices) -> list[Section]:
    """Return a row per column with all its statistics."""
    results = objects(param, "self_values", "results")
    names = texts(meta, "static_columns") or (texts(results[0], "col_names") if results else [])
    by_kind = [(str(one.get("value_name", "")), numbers(one, "values")) for one in results]
    rows = [(name, *(at(values, i) for _, values in by_kind)) for i, name in enumerate(names)]
    heads = [Column(title=kind, numeric=True) for kind, _ in by_kind]
    return [
        Facts(title=t("Data statistics"), pairs=((t("Columns"), len(names)),)),
        Table(
            id="statistics",
            title=t("Statistics of the columns"),
            columns=(Column(title=t("Feature")), *heads),
            rows=rows,
        ),
    ]


def stability(role: Role, param: Json, meta: Json, choices: Choices) -> list[Section]:
    """Return the population stability of the columns, and the bins of the chosen one."""
    features = {str(one.get("feature_name", "")): one for one in objects(param, "feature_psi")}
    total = mapping(param, "total_score")
    rows: list[Sequence[Cell]] = []
    for name in features or total:
        score = number(total.get(name))
        rows.append((ChoiceLink(text=name, choices={"feature": name}), score, _verdict(score)))
    found: list[Section] = [
        Table(
            id="psi",
            title=t("Population stability"),
            columns=(
                Column(title=t("Feature")),
                Column(title=t("PSI"), numeric=True),
                Column(title=t("Verdict")),
            ),
            rows=rows,
            note=t("Below 0.1 a feature counts as stable, above 0.25 as not stable."),
        ),
        *_greatest(t("PSI by feature"), {n: number(v) for n, v in total.items()}),
    ]
    feature = chosen(choices, "feature", list(features))
    if feature:
        found += _stability_bins(feature, features[feature])
    return found


def _verdict(score: float | None) -> str | None:
    if score is None:
        return None
    return t("stable") if score < 0.1 else t("changed") if score > 0.25 else t("slightly changed")


def _stability_bins(name: str, feature: Json) -> list[Section]:
    bins = texts(feature, "interval")
    expected, actual = numbers(feature, "expect_perc"), numbers(feature, "actual_perc")
    scores = numbers(feature, "psi")
    table = Table(
        id="psi-bins",
        title=t("Bins of {feature}", feature=name[:200]),
        columns=(
            Column(title=t("Bin")),
            Column(title=t("Expected share"), numeric=True),
            Column(title=t("Actual share"), numeric=True),
            Column(title=t("PSI"), numeric=True),
        ),
        rows=[
            (label, at(expected, i), at(actual, i), at(scores, i)) for i, label in enumerate(bins)
        ],
    )
    chart = Groups(
        title=t("Shares per bin of {feature}", feature=name[:200]),
        bins=bins,
        series=((t("Expected share"), expected), (t("Actual share"), actual)),
        line=(t("PSI"), scores),
    )
    return [table, chart]


def scaling(role: Role, param: Json, meta: Json, choices: Choices) -> list[Section]:
    """Return the limits, mean and deviation by which columns were scaled."""
    columns = mapping(param, "col_scale_param")
    keys = ("column_lower", "column_upper", "mean", "std")
    rows = [
        (name, *(number(mapping(one).get(key)) for key in keys)) for name, one in columns.items()
    ]
    titles = (t("Lower limit"), t("Upper limit"), t("Mean"), t("Standard deviation"))
    pairs: list[tuple[str, Cell]] = [
        (t("Method"), str(meta.get("method") or "-")),
        (t("Mode"), str(meta.get("mode") or "-")),
        (t("Columns"), len(columns)),
    ]
    return [
        Facts(title=t("Scaling"), pairs=pairs),
        Table(
            id="scale",
            title=t("Scaled columns"),
            columns=(
                Column(title=t("Feature")), *(Column(title=one, numeric=True) for one in titles)
            ),
            rows=rows,
        ),
    ]  # fmt: skip


def filling(role: Role, param: Json, meta: Json, choices: Choices) -> list[Section]:
    """Return what filled missing cells and replaced outliers."""
    found: list[Section] = []
    header = texts(param, "header")
    pairs: list[tuple[str, Cell]] = [(t("Columns"), len(header))]
    label = param.get("label_name")
    if role is not Role.HOST and isinstance(label, str) and label:
        pairs.append((t("Label"), label))
    if isinstance(param.get("sid_name"), str):
        pairs.append((t("Id"), str(param["sid_name"])))
    found.append(Facts(title=t("Columns"), pairs=pairs))
    missing = mapping(param, "imputer_param")
    outliers = mapping(param, "outlier_param")
    found.append(_replaced("missing", t("Missing values"), missing, "missing", header))
    if outliers:
        found.append(_replaced("outliers", t("Outliers"), outliers, "outlier", header))
    hidden = texts(param, "anonymous_header")
    if hidden:
        rows = [(name, at(hidden, i)) for i, name in enumerate(header)]
        columns = (Column(title=t("Feature")), Column(title=t("Anonymous name")))
        found.append(Table(id="names", title=t("Names of the columns"), columns=columns, rows=rows))
    return found


def _replaced(id_: str, title: str, part: Json, word: str, header: Sequence[str]) -> Table:
    values, ratios = mapping(part, f"{word}_replace_value"), mapping(part, f"{word}_value_ratio")
    methods = mapping(part, "cols_replace_method")
    named = dict.fromkeys([*header, *values, *ratios])
    rows: list[Sequence[Cell]] = []
    for name in named:
        if name not in values and name not in ratios:
            continue
        value = values.get(name)
        method = [str(methods.get(name, "-"))] if methods else []
        rows.append(
            (name, number(ratios.get(name)), *method, None if value is None else str(value))
        )
    how = [Column(title=t("Method"))] if methods else []
    columns = (
        Column(title=t("Feature")), Column(title=t("Share of rows"), numeric=True), *how,
        Column(title=t("Replaced by")),
    )  # fmt: skip
    return Table(id=id_, title=title, columns=columns, rows=rows)


def one_hot(role: Role, param: Json, meta: Json, choices: Choices) -> list[Section]:
    """Return which value of which column became which new column."""
    columns = mapping(param, "col_map")
    rows: list[Sequence[Cell]] = []
    for name, one in columns.items():
        made = texts(one, "transformed_headers") or texts(one, "encoded_variables")
        rows += [(name, value, at(made, i)) for i, value in enumerate(texts(one, "values"))]
    heads = (t("Feature"), t("Value"), t("New column"))
    return [
        Facts(title=t("One-hot encoding"), pairs=((t("Encoded columns"), len(columns)),)),
        Table(
            id="codes",
            title=t("Values and their columns"),
            columns=[Column(title=title) for title in heads],
            rows=rows,
        ),
    ]


def label_codes(role: Role, param: Json, meta: Json, choices: Choices) -> list[Section]:
    """Return which label became which."""
    rows = [(str(old), str(new)) for old, new in mapping(param, "label_encoder").items()]
    columns = (Column(title=t("Label")), Column(title=t("New label")))
    return [Table(id="labels", title=t("Labels"), columns=columns, rows=rows)]


def class_weights(role: Role, param: Json, meta: Json, choices: Choices) -> list[Section]:
    """Return how rows were weighted."""
    weights = mapping(param, "class_weight")
    pairs: list[tuple[str, Cell]] = [(t("Mode"), str(param.get("weight_mode") or "-"))]
    if meta.get("sample_weight_name"):
        pairs.append((t("Weight column"), str(meta["sample_weight_name"])))
    found: list[Section] = [Facts(title=t("Sample weights"), pairs=pairs)]
    if weights:
        columns = (Column(title=t("Class")), Column(title=t("Weight"), numeric=True))
        rows = [(str(name), number(value)) for name, value in weights.items()]
        found.append(
            Table(id="classes", title=t("Weights of the classes"), columns=columns, rows=rows)
        )
    return found


def _greatest(title: str, values: Mapping[str, float | None]) -> list[Section]:
    known = sorted(((n, v) for n, v in values.items() if v), key=lambda one: -abs(one[1]))
    if not known:
        return []
    note = t("The {n} greatest of {m}.", n=BARS, m=len(known)) if len(known) > BARS else ""
    return [Bars(title=title, bars=known[:BARS], note=note)]
