"""HeteroDataSplit and HomoDataSplit: train, validate and test data from one table.

MESSAGES

Nothing is sent by HomoDataSplit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.samples.alignment import check_same_ids
from fedflow.components.samples.decoding import numbers
from fedflow.components.samples.labels import label_key, read_labels
from fedflow.components.samples.positions import Positions, received_positions
from fedflow.components.sampling.gather import write_rows
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    Outputs,
    Params,
    Role,
    Table,
    component,
)
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
sample_ids | rows | guest <-> hosts | number of rows, digest of the ids in order
id_train, id_validate, id_test | rows | guest -> hosts | positions of the rows of the part
""")

PARTS = ("train", "validate", "test")
PORTS = tuple(f"{part}_data" for part in PARTS)
TINY = 1e-8

NonNegative = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Size = NonNegative | Share | None


class DataSplitParams(Params, frozen=True, kw_only=True):
    """How large the parts are; without any size: 0.8, 0.2 and 0."""

    #: makes the draw repeatable; null: unpredictable
    random_state: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] | None = None
    #: rows (a whole number) or share (0.0 to 1.0) of the test part; null: what the others leave
    test_size: Size = None
    train_size: Size = None  #: as `test_size`
    validate_size: Size = None  #: as `test_size`
    stratified: bool = False  #: parts have equal shares of each label, or of each range of labels
    shuffle: bool = True  #: false: the parts follow each other in the order of the ids
    #: bounds between ranges of numeric labels (a bound belongs to the range below it)
    split_points: list[float] | None = None
    need_run: bool = True  #: false: the first output is the input

    @property
    def sizes(self) -> tuple[Size, Size, Size]:
        """Return the sizes of train, validate and test."""
        given = (self.train_size, self.validate_size, self.test_size)
        return (0.8, 0.2, 0.0) if given == (None, None, None) else given

    def check(self) -> None:
        """Sizes must be possible together."""
        if self.stratified and not self.shuffle:
            raise ValueError("shuffle: it must be true with stratified")
        shares = [s for s in self.sizes if isinstance(s, float)]
        if shares and any(isinstance(s, int) and s for s in self.sizes):
            raise ValueError("train_size: shares and numbers of rows cannot be mixed")
        if shares and sum(shares) > 1 + TINY:
            raise ValueError("train_size: the shares of all parts are more than 1")


class _Split:
    """What both components do."""

    def run(self, ctx: Context) -> Outputs:
        """Split the rows.

        Raises: BadParameter: the sizes do not fit the rows. BadData: no rows, labels that cannot be
            stratified, or other rows at another party. CodecError, PeerFailed.
        """
        params: DataSplitParams = ctx.params
        table = ctx.inputs.first("data")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        if table is None or table.count == 0:
            raise BadData(where="input.data", reason="there are no rows to split")
        parts, labels = self.parts(ctx, table)
        tables = {part: write_rows(ctx, table, parts[part]) for part in PARTS}
        summary = _counts(params, parts)
        if labels is not None:
            summary["data_split_label_info"] = _label_info(params, parts, labels)
        ctx.tracker.metric(
            "train",
            "data_split",
            metric_type="DATA_SPLIT",
            points=[("data_split", 0)],
            meta=summary,
        )
        return Outputs(data=_in_declared_order(ctx, tables), summary=summary)

    def parts(
        self, ctx: Context, table: Table
    ) -> tuple[Mapping[str, Positions], NDArray[np.str_] | None]:
        """Return the rows of each part, and with `stratified` the class of each row."""
        raise NotImplementedError


@component("HomoDataSplit", roles=("guest", "host"), params=DataSplitParams,
           param_name="DataSplitParam", absence="apart")  # fmt: skip
class HomoDataSplit(_Split):
    """Splits each party's own rows into train, validate and test data.

    Outputs: `train_data`, `validate_data`, `test_data`, by these names where the DSL declares them,
    else in this order; a part without rows is an empty table. Rows keep their order. Each party
    draws for itself; nothing is sent. The draw is scikit-learn's `train_test_split` over the sorted
    ids, as in FATE: first the train part, then the rest into validate and test part.

    Metric `train` / `data_split` with the numbers in its meta. Summary: `data_split_count_info`,
    `data_split_ratio_info`, `stratified`, with it `data_split_label_info`.
    """

    def parts(
        self, ctx: Context, table: Table
    ) -> tuple[Mapping[str, Positions], NDArray[np.str_] | None]:
        """Draw alone."""
        return _draw(ctx, table)


@component("HeteroDataSplit", roles=("guest", "host"), params=DataSplitParams,
           param_name="DataSplitParam", messages=MESSAGES)  # fmt: skip
class HeteroDataSplit(_Split):
    """Splits the rows into train, validate and test data, equally at all parties.

    The guest draws as HomoDataSplit does, with its labels if `stratified`; the hosts take the same
    rows. All parties must have the same ids in the same order: put Intersection before it.

    Outputs, metric and summary are those of HomoDataSplit; `data_split_label_info` is at the guest.

    Unlike FATE: positions are sent, not ids.
    """

    def parts(
        self, ctx: Context, table: Table
    ) -> tuple[Mapping[str, Positions], NDArray[np.str_] | None]:
        """Draw at the guest and follow at the hosts."""
        check_same_ids(ctx, _ids(table), tag="split")
        if ctx.site.role is Role.GUEST:
            parts, labels = _draw(ctx, table)
            for part in PARTS:
                ctx.federation.send(f"id_{part}", parts[part], to=ctx.sites_of(Role.HOST))
            return parts, labels
        guest = ctx.only(Role.GUEST)
        received = {
            part: received_positions(
                ctx, f"id_{part}", from_=guest, rows=table.count, repeated=False
            )
            for part in PARTS
        }
        every = np.concatenate(list(received.values()))
        if len(every) != table.count or len(np.unique(every)) != len(every):
            raise CodecError(reason=f"the parts of {guest} do not hold every row once")
        return received, None


def _draw(ctx: Context, table: Table) -> tuple[dict[str, Positions], NDArray[np.str_] | None]:
    """Return the rows of each part, ascending. Raises: BadParameter, BadData."""
    params: DataSplitParams = ctx.params
    order = pc.sort_indices(_ids(table)).to_numpy().astype(np.int64)
    labels = _classes(params, table) if params.stratified else None
    train, validate, test = _numbers(params, table.count, path=ctx.component)
    first, rest = _cut(params, order, train, labels)
    second, third = _cut(params, rest, validate, labels)
    ctx.log.info("%s rows to train, %s to validate, %s to test", train, validate, test)
    return {
        part: np.sort(rows) for part, rows in zip(PARTS, (first, second, third), strict=True)
    }, labels


def _numbers(params: DataSplitParams, rows: int, *, path: str) -> tuple[int, int, int]:
    """Return how many rows train, validate and test get. Raises: BadParameter: that is too many."""
    sizes = list(params.sizes)
    whole: float = 1.0 if any(isinstance(s, float) for s in sizes) else rows
    for part in (0, 2, 1):  # the first that is not given gets what the others leave
        if sizes[part] is None:
            sizes[part] = whole - sum(s for s in sizes if s is not None)
            sizes = [0 if s is None else s for s in sizes]
    train, validate, test = (float(s or 0) for s in sizes)
    if min(train, validate, test) < -TINY or abs(train + validate + test - whole) > TINY:
        reason = f"the parts are {train:g} + {validate:g} + {test:g}, not {whole:g} in all"
        raise BadParameter(path=f"{path}.train_size", reason=reason)
    first = round(train / whole * rows)
    left, others = rows - first, validate + test
    second = round(validate / others * left) if others > TINY else 0
    return first, second, left - second


def _cut(
    params: DataSplitParams, rows: Positions, size: int, labels: NDArray[np.str_] | None
) -> tuple[Positions, Positions]:
    """Return `size` of the rows, and the others. Raises: BadData: they cannot be stratified."""
    if size == 0:
        return rows[:0], rows
    if size == len(rows):
        return rows, rows[:0]
    from sklearn.model_selection import train_test_split

    classes = None if labels is None else labels[rows]
    if classes is not None:
        _check_classes(classes, least=min(size, len(rows) - size))
    first, second = train_test_split(
        rows,
        train_size=size,
        test_size=len(rows) - size,
        random_state=params.random_state,
        shuffle=params.shuffle,
        stratify=classes,
    )
    return first, second


def _check_classes(classes: NDArray[np.str_], *, least: int) -> None:
    """Do nothing if every class can be in both parts. Raises: BadData: it cannot."""
    _, counts = np.unique(classes, return_counts=True)
    single = int((counts < 2).sum())
    if single:
        reason = f"{single} of {len(counts)} classes have one row only; two are needed to stratify"
        raise BadData(where="the labels", reason=reason)
    if least < len(counts):
        reason = f"a part of {least} rows cannot hold {len(counts)} classes"
        raise BadData(where="the labels", reason=reason)


def _classes(params: DataSplitParams, table: Table) -> NDArray[np.str_]:
    """Return the label of every row as text, or the number of its range. Raises: BadData."""
    labels = read_labels(table, needed_by="stratified")
    if params.split_points:
        where = f"table {table.namespace}.{table.name}"
        values = numbers(labels, name=str(table.schema.label), where=where)
        return np.searchsorted(sorted(params.split_points), values, side="left").astype(str)
    codes = labels.dictionary_encode().combine_chunks()
    keys = np.array([label_key(value) for value in codes.dictionary.to_pylist()])
    chosen: NDArray[np.str_] = keys[codes.indices.to_numpy(zero_copy_only=False)]
    return chosen


def _counts(params: DataSplitParams, parts: Mapping[str, Positions]) -> dict[str, Any]:
    counts = {part: len(parts[part]) for part in PARTS}
    total = sum(counts.values())
    return {
        "data_split_count_info": {**counts, "original": total},
        "data_split_ratio_info": {part: round(n / total, 3) for part, n in counts.items()},
        "stratified": params.stratified,
    }


def _label_info(
    params: DataSplitParams, parts: Mapping[str, Positions], labels: NDArray[np.str_]
) -> dict[str, Any]:
    """Return how many rows of each class are in each part."""
    ranges = len(params.split_points or ()) + 1
    names = (
        [str(i) for i in range(ranges)]
        if params.split_points
        else sorted(np.unique(labels).tolist())
    )
    info: dict[str, Any] = {}
    for part, chosen in (("original", labels), *((p, labels[parts[p]]) for p in PARTS)):
        info[part] = {name: int((chosen == name).sum()) for name in names}
    if params.split_points:
        return {**info, "split_points": sorted(params.split_points), "continuous_label": True}
    return {**info, "label_names": names, "continuous_label": False}


def _in_declared_order(ctx: Context, tables: Mapping[str, Table]) -> tuple[Table | None, ...]:
    """Return the parts as the DSL declares them: by name if all names are known, else in order."""
    by_port = {port: tables[part] for port, part in zip(PORTS, PARTS, strict=True)}
    if ctx.output_names and set(ctx.output_names) <= set(by_port):
        return tuple(by_port[name] for name in ctx.output_names)
    return tuple(by_port.values())


def _ids(table: Table) -> pa.ChunkedArray:
    return table.read((table.schema.id,)).column(0)
