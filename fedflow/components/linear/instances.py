"""A party's rows as arrays, checked; and the proof that all parties have the same rows in order."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.base.errors import CodecError
from fedflow.sdk import BadData, Context, NotSupportedYet, Role, Site, Table

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Instances:
    """One table in memory."""

    table: Table
    ids: pa.ChunkedArray
    columns: tuple[str, ...]
    features: Floats  #: rows x columns
    labels: pa.ChunkedArray | None
    weights: Floats | None  #: one per row, mean 1

    @property
    def rows(self) -> int:
        return int(self.features.shape[0])


def read_instances(table: Table, *, columns: tuple[str, ...] | None = None) -> Instances:
    """Return the rows of `table`; `columns` picks and orders the features (None = all).

    Raises: BadData: no rows, a missing column, a feature that is no number or has missing values, a
        negative or missing weight.
    """
    schema = table.schema
    where = f"table {table.namespace}.{table.name}"
    wanted = schema.columns if columns is None else columns
    absent = [name for name in wanted if name not in schema.columns]
    if absent:
        raise BadData(where=where, reason=f"lacks the model's columns {', '.join(absent[:20])}")
    if table.count == 0:
        raise BadData(where=where, reason="has no rows")
    rows = table.read()
    features = np.empty((rows.num_rows, len(wanted)), dtype=np.float64)
    for index, name in enumerate(wanted):
        features[:, index] = _numbers(rows.column(name), name=name, where=where)
    weights = None
    if schema.weight is not None:
        weights = _numbers(rows.column(schema.weight), name=schema.weight, where=where)
        total = float(weights.sum())
        if float(weights.min()) < 0 or total <= 0:
            raise BadData(where=where, reason="weights must not be negative or all 0")
        weights = weights * (len(weights) / total)
    return Instances(
        table=table,
        ids=rows.column(schema.id),
        columns=tuple(wanted),
        features=features,
        labels=None if schema.label is None else rows.column(schema.label),
        weights=weights,
    )


def two_classes(data: Instances) -> tuple[list[Any], Floats]:
    """Return the two label values in order, and the rows' labels as -1.0 and 1.0.

    Raises: BadData: no label column, a missing label, only one class. NotSupportedYet: more than 2.
    """
    where = f"table {data.table.namespace}.{data.table.name}"
    if data.labels is None:
        raise BadData(where=where, reason="has no label column, which the guest needs to train")
    if data.labels.null_count:
        raise BadData(where=where, reason=f"{data.labels.null_count} rows have no label")
    counts = {entry["values"]: entry["counts"] for entry in data.labels.value_counts().to_pylist()}
    if len(counts) > 2:
        raise NotSupportedYet(what=f"HeteroLR with {len(counts)} classes (multi_class)")
    if len(counts) < 2:
        (count,) = counts.values()
        raise BadData(where=where, reason=f"all {count} labels are equal; two classes are needed")
    classes = sorted(counts)
    positive = pc.equal(data.labels, pa.scalar(classes[1], data.labels.type))
    return classes, np.where(positive.to_numpy(), 1.0, -1.0)


def check_same_rows(ctx: Context, data: Instances, *, tag: str) -> None:
    """Do nothing if guest and hosts have the same ids in the same order; all of them call this.

    They exchange the number of rows and a digest of the ids in order, nothing else.

    Raises: BadData: the rows differ.
    """
    own = {"rows": data.rows, "digest": ids_digest(data.ids)}
    peers: tuple[Site, ...]
    is_guest = ctx.site.role is Role.GUEST
    peers = ctx.sites_of(Role.HOST) if is_guest else (ctx.only(Role.GUEST),)
    ctx.federation.send("sample_ids", own, to=peers, tag=tag)
    for peer in peers:
        theirs = ctx.federation.recv("sample_ids", from_=peer, tag=tag)
        if not isinstance(theirs, dict) or not isinstance(theirs.get("rows"), int):
            raise CodecError(reason=f"{peer} sent no number of rows")
        where = f"{tag} data of {ctx.component}"
        if theirs["rows"] != own["rows"]:
            raise BadData(
                where=where,
                reason=f"{ctx.site} has {own['rows']} rows, {peer} has {theirs['rows']}; "
                "align them with Intersection first",
            )
        if theirs.get("digest") != own["digest"]:
            raise BadData(
                where=where,
                reason=f"{ctx.site} and {peer} have different ids, or another order; align them "
                "with Intersection first",
            )


def ids_digest(ids: pa.ChunkedArray) -> str:
    """Return a digest of the ids as text in order, 64 hexadecimal digits, for any chunking."""
    lengths, letters = hashlib.sha256(), hashlib.sha256()
    for chunk in ids.cast(pa.string()).chunks:
        lengths.update(pc.binary_length(chunk).to_numpy(zero_copy_only=False).astype("<i8"))
        letters.update("".join(chunk.to_pylist()).encode())
    return hashlib.sha256(lengths.digest() + letters.digest()).hexdigest()


def _numbers(column: pa.ChunkedArray, *, name: str, where: str) -> Floats:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise BadData(where=where, reason=f"column {name!r} is {kind}, not a number")
    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    bad = int(np.count_nonzero(~np.isfinite(values)))  # a null arrives as NaN
    if bad:
        raise BadData(
            where=where, reason=f"column {name!r} has {bad} missing or infinite values; fill them"
        )
    return values
