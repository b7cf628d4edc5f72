"""The messages of HeteroFeatureBinning.

MESSAGES

[[x]] is x encrypted with the guest's key. The first two are always sent. No more follows where the
guest has no statistics or the host takes no part. The reason is `local_only`, `skip_static`,
`need_run` false, or a guest's table without labels in a run with a model. A host sees ciphertexts,
the number of classes and, in optimal binning, which of its buckets belong together, which depends
on the labels. The guest learns how many rows, and how many of each class, each bin of a host has;
neither split points nor which rows. Source: FATE's protocol, docs/reference/components.md#binning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.binning.labels import MAX_CLASSES
from fedflow.components.binning.params import MAX_BUCKETS, OptimalBinningParam
from fedflow.components.samples.alignment import check_same_ids
from fedflow.components.waiting import wait_for, wait_for_all
from fedflow.sdk import BadParameter, Context, Role, Site, Table, check_params
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
binning_plan | settings | guest -> hosts | {classes}: of how many it makes statistics, 0 = none
binning_part | settings | host -> guest | {takes_part}: whether it wants statistics of its columns
optimal_info | settings | host -> guest | `HostColumns`: names, bins per column, what to merge
sample_ids | rows | guest <-> hosts | {rows, digest}
paillier_pubkey | key | guest -> hosts | {n: hexadecimal}
encrypted_label | ciphertext | guest -> hosts | [[one-hot class]] per row; tag = block of rows
encrypted_bin_sum | sealed | host -> guest | packed [[rows per class]] of every bin of every column
bucket_idx | rows | guest -> host | optimal binning: which buckets end a bin, per column
""")

MAX_BINS: Final = 1 << 24  #: of all columns of a host, which bounds what a wrong message can cost
MAX_NAME: Final = 300  #: letters of an anonymous name

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class HostColumns:
    """What a host tells of its columns."""

    names: tuple[str, ...]  #: anonymous
    bins: tuple[int, ...]  #: per column, that of missing values included
    missing: tuple[bool, ...]  #: per column: there is a last bin for missing values
    merges: tuple[bool, ...]  #: per column: its bins are buckets for optimal binning
    bin_num: int  #: of optimal binning
    optimal: OptimalBinningParam

    def to_json(self) -> dict[str, Any]:
        """Return the message."""
        optimal = {f: getattr(self.optimal, f) for f in self.optimal.__struct_fields__}
        return {
            "columns": list(self.names),
            "bins": list(self.bins),
            "missing": list(self.missing),
            "merges": list(self.merges),
            "bin_num": self.bin_num,
            "optimal": optimal,
        }

    @staticmethod
    def from_json(value: object, *, sender: Site) -> HostColumns:
        """Return the message of a host. Raises: CodecError."""
        if not isinstance(value, dict):
            raise CodecError(reason=f"optimal_info of {sender}: not an object")
        columns, bins, missing, merges = (
            _listed(value, key, kind, sender=sender)
            for key, kind in (("columns", str), ("bins", int), ("missing", bool), ("merges", bool))
        )
        if not len(columns) == len(bins) == len(missing) == len(merges):
            raise CodecError(reason=f"optimal_info of {sender}: lists of different lengths")
        if len(set(columns)) != len(columns) or not all(0 < len(c) <= MAX_NAME for c in columns):
            raise CodecError(reason=f"optimal_info of {sender}: the names of columns are none")
        most_buckets = max((b - m for b, m, k in zip(bins, missing, merges) if k), default=0)
        if min(bins, default=1) < 1 or sum(bins) > MAX_BINS or most_buckets > MAX_BUCKETS:
            raise CodecError(reason=f"optimal_info of {sender}: impossible numbers of bins")
        bin_num, optimal = value.get("bin_num"), value.get("optimal")
        if type(bin_num) is not int or bin_num < 1 or not isinstance(optimal, dict):
            raise CodecError(reason=f"optimal_info of {sender}: no parameters of optimal binning")
        try:
            params = check_params(OptimalBinningParam, optimal, path="optimal_info")
        except BadParameter as exc:
            raise CodecError(reason=f"optimal_info of {sender}: {exc.message}") from exc
        return HostColumns(
            names=columns,
            bins=bins,
            missing=missing,
            merges=merges,
            bin_num=bin_num,
            optimal=params,
        )


def agree_as_guest(ctx: Context, *, classes: int) -> tuple[Site, ...]:
    """Return the hosts of whose columns statistics are made; none with 0 `classes`.

    Raises: CodecError, PeerFailed.
    """
    hosts = ctx.sites_of(Role.HOST)
    if not hosts:
        return ()
    ctx.federation.send("binning_plan", {"classes": classes}, to=hosts)
    partners = []
    for host, value in zip(hosts, wait_for_all(ctx, "binning_part", hosts)):
        if not isinstance(value, dict) or not isinstance(value.get("takes_part"), bool):
            raise CodecError(reason=f"binning_part of {host}: not an object")
        if classes and value["takes_part"]:
            partners.append(host)
        elif classes:
            ctx.log.info("%s takes no part: there are no statistics of its columns", host)
    return tuple(partners)


def agree_as_host(ctx: Context, *, takes_part: bool) -> int:
    """Return of how many classes the guest makes statistics of this host's columns, 0 = none.

    Raises: CodecError, PeerFailed.
    """
    if not ctx.sites_of(Role.GUEST):
        return 0
    guest = ctx.only(Role.GUEST)
    ctx.federation.send("binning_part", {"takes_part": takes_part}, to=guest)
    value = wait_for(ctx, "binning_plan", guest)
    classes = value.get("classes") if isinstance(value, dict) else None
    if type(classes) is not int or classes not in {0, *range(2, MAX_CLASSES + 1)}:
        raise CodecError(reason="binning_plan: an impossible number of classes")
    return classes if takes_part else 0


def receive_columns(ctx: Context, hosts: Sequence[Site]) -> dict[Site, HostColumns]:
    """Return what the hosts tell of their columns. Raises: CodecError, PeerFailed."""
    values = wait_for_all(ctx, "optimal_info", hosts)
    return {
        host: HostColumns.from_json(value, sender=host)
        for host, value in zip(hosts, values, strict=True)
    }


def check_rows(ctx: Context, table: Table, *, partners: Sequence[Site]) -> int:
    """Return the number of rows, which all who take part have in the same order.

    Raises: BadData: the rows differ.
    """
    among = tuple(s for s in ctx.sites if s == ctx.site or s in partners)
    ids = table.read((table.schema.id,)).column(0)
    check_same_ids(replace(ctx, sites=among), ids, tag="binning")
    return len(ids)


def parse_ends(value: object, *, sizes: Sequence[int]) -> list[Ints]:
    """Return per column which buckets end a bin, checked; `sizes` are the numbers of buckets.

    Raises: CodecError: not ascending indexes of buckets, of which the last is the last bucket.
    """
    if not isinstance(value, list) or len(value) != len(sizes):
        raise CodecError(reason="bucket_idx: not one list per column")
    found = []
    for ends, size in zip(value, sizes, strict=True):
        if not isinstance(ends, list) or any(type(end) is not int for end in ends):
            raise CodecError(reason="bucket_idx: not a list of indexes")
        expected_end = [size - 1] if size else []
        if ends[-1:] != expected_end or any(b <= a for a, b in zip([-1, *ends], ends)):
            raise CodecError(reason="bucket_idx: the indexes do not cover the buckets in order")
        found.append(np.array(ends, dtype=np.int64))
    return found


def _listed(value: Mapping[str, Any], key: str, kind: type, *, sender: Site) -> tuple[Any, ...]:
    items = value.get(key)
    if not isinstance(items, list) or any(type(item) is not kind for item in items):
        raise CodecError(reason=f"optimal_info of {sender}: `{key}` is not what was expected")
    return tuple(items)
