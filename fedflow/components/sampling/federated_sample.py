"""FederatedSample: some of the rows, the same ones at all parties.

MESSAGES

`repeated` tells whether a row may be chosen several times, so that rows get new ids. If a host's
ids differ from the guest's (the sample is drawn before an intersection), no ids are sent. Every
party takes the rows whose keyed hash of the id is at most `limit`. So an id that several have is
chosen by all or by none. That is possible for random samples without repetition. With `task_type`
homo nothing is sent.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.samples.alignment import ids_digest
from fedflow.components.samples.decoding import numbers
from fedflow.components.samples.labels import label_key, read_labels
from fedflow.components.samples.positions import Positions, received_positions
from fedflow.components.sampling.gather import write_rows
from fedflow.components.training.params import one_of
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, BadParameter, Context, Outputs, Params, Role, Table, component
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol
from fedflow.sdk.spellings import Flag

MESSAGES: Final = protocol("""
sample_rows | rows | host -> guest | number of rows, digest of the ids in order
sample_plan | settings | guest -> hosts | `by`: position, or hash with `key`, `limit`; `repeated`
sample_ids | rows | guest -> hosts | positions of the chosen rows (with `by` position)
""")

Label = int | float | str
Hashes = NDArray[np.uint64]

RANDOM, STRATIFIED, EXACT = "random", "stratified", "exact_by_weight"
DEFAULT_FRACTION = 0.1
MAX_ROWS = 2**31 - 1
_KEY = re.compile(r"[0-9a-f]{16}")


class FederatedSampleParams(Params, frozen=True, kw_only=True):
    """Which rows are chosen."""

    #: `random`; `stratified` (a fraction per label); `exact_by_weight` (each row as often as its
    #: weight says, rounded up)
    mode: str = RANDOM
    #: `downsample` (no row twice; fractions 0 to 1) or `upsample` (with repetition; above 0)
    method: str = "downsample"
    #: share of the rows (null: 0.1), or with `stratified` pairs of a label and its share
    fractions: float | list[tuple[Label, float]] | None = None
    #: makes the draw repeatable; null: unpredictable
    random_state: Annotated[int, msgspec.Meta(ge=0)] | None = None
    #: `hetero`: the guest draws for all; `homo`: each party draws from its own rows
    task_type: str = "hetero"
    need_run: Flag = True  #: false: the output is the input

    @property
    def repeated(self) -> bool:
        """Tell whether a row may be chosen several times."""
        return self.mode.lower() == EXACT or self.method.lower() == "upsample"

    @property
    def share(self) -> float:
        """Return the share of a random sample."""
        return self.fractions if isinstance(self.fractions, float) else DEFAULT_FRACTION

    @property
    def per_label(self) -> list[tuple[Label, float]]:
        """Return the shares of a stratified sample."""
        return self.fractions if isinstance(self.fractions, list) else []

    def check(self) -> None:
        """Fractions must fit mode and method."""
        one_of("mode", self.mode, (RANDOM, STRATIFIED, EXACT))
        one_of("method", self.method, ("downsample", "upsample"))
        one_of("task_type", self.task_type, ("hetero", "homo"))
        if self.mode.lower() == RANDOM:
            if isinstance(self.fractions, list):
                raise ValueError("fractions: must be one number with mode random")
            self._check_fraction(self.fractions, "fractions")
        if self.mode.lower() == STRATIFIED:
            if not isinstance(self.fractions, list) or not self.fractions:
                raise ValueError("fractions: must be a list of [label, share] with mode stratified")
            for label, share in self.fractions:
                self._check_fraction(share, f"fractions ({label!r})")
            if len({label_key(label) for label, _ in self.fractions}) < len(self.fractions):
                raise ValueError("fractions: a label is named twice")

    def _check_fraction(self, share: float | None, name: str) -> None:
        if share is None:
            return
        if self.method.lower() == "downsample" and not 0 <= share <= 1:
            raise ValueError(f"{name}: must be 0 to 1 with method downsample")
        if self.method.lower() == "upsample" and not 0 < share < float("inf"):
            raise ValueError(f"{name}: must be above 0 with method upsample")


@component("FederatedSample", roles=("guest", "host"), params=FederatedSampleParams,
           param_name="SampleParam", messages=MESSAGES)  # fmt: skip
class FederatedSample:
    """Draws a sample of the rows, and makes the same choice at all parties.

    With `task_type` hetero the guest draws, by its labels or weights where these matter, and the
    hosts take the same rows. They must have the same ids in the same order, but for random samples
    without repetition. A sample of n rows has int(share * n) rows, at least one if none is
    repeated. Rows stand in the order of the input. Where rows may be repeated they get new ids 0,
    1, 2 ... (match ids are kept).

    Metrics (namespace `sample_count`, name = the mode; with `stratified` at the guest
    `original_count` too). Summary: `sample_count`, with `stratified` `original_count`, per label.

    Unlike FATE: no ids are sent to another party; `exact_by_weight` needs no match ids.
    """

    def run(self, ctx: Context) -> Outputs:
        """Draw, agree, and write the chosen rows.

        Raises: BadData: no rows, labels that `fractions` does not name, no weights where they are
            needed, or other rows at another party. CodecError, PeerFailed.
        """
        params: FederatedSampleParams = ctx.params
        table = ctx.inputs.first("data")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        if table is None or table.count == 0:
            raise BadData(where="input.data", reason="there are no rows to choose from")
        alone = params.task_type.lower() == "homo"
        if alone or not ctx.sites_of(Role.HOST):
            draw = _Draw(ctx, table)
            chosen = draw.positions()
        elif ctx.site.role is Role.GUEST:
            draw = _Draw(ctx, table)
            chosen = _choose_for_all(ctx, table, draw)
        else:
            draw, chosen = None, _follow_guest(ctx, table)
        sample = write_rows(ctx, table, chosen, new_ids=params.repeated)
        return Outputs(data=(sample,), summary=_record(ctx, draw, sample.count))


class _Draw:
    """The draw of one party."""

    def __init__(self, ctx: Context, table: Table) -> None:
        params: FederatedSampleParams = ctx.params
        self.rng = np.random.default_rng(params.random_state)
        self.counts: list[tuple[Label, int, int]] = []  #: (label, rows, of these chosen)
        self._table = table
        self._params = params
        self._ctx = ctx
        self._where = f"table {table.namespace}.{table.name}"

    @property
    def size(self) -> int:
        """Return the size of a random sample."""
        return self._size(self._params.share, self._table.count)

    def positions(self) -> Positions:
        """Return the chosen rows, ascending. Raises: BadData."""
        mode = self._params.mode.lower()
        if mode == EXACT:
            return self._by_weight()
        if mode == STRATIFIED:
            return self._by_label()
        return np.sort(self._some(np.arange(self._table.count), self.size))

    def _some(self, rows: Positions, size: int) -> Positions:
        return self.rng.choice(rows, size, replace=self._params.repeated)

    def _size(self, share: float, rows: int) -> int:
        size = int(self._bounded(share * rows))
        return size if self._params.repeated else min(rows, max(1, size))

    def _bounded(self, rows: float) -> float:
        """Return `rows`. Raises: BadData: no table can have so many."""
        if rows > MAX_ROWS:
            reason = f"a sample of {rows:g} rows is too large; {MAX_ROWS} is the limit"
            raise BadData(where=self._where, reason=reason)
        return rows

    def _by_label(self) -> Positions:
        shares = self._params.per_label
        labels = read_labels(self._table, needed_by="mode stratified")
        codes = labels.dictionary_encode().combine_chunks()
        keys = [label_key(value) for value in codes.dictionary.to_pylist()]
        indexes = codes.indices.to_numpy(zero_copy_only=False)
        unnamed = np.isin(keys, [label_key(label) for label, _ in shares], invert=True)
        if unnamed.any():
            rows = int(unnamed[indexes].sum())
            reason = f"{rows} of {len(labels)} rows have a label that fractions does not name"
            raise BadData(where=self._where, reason=reason)
        chosen = []
        for label, share in shares:
            key = label_key(label)
            place = keys.index(key) if key in keys else -1
            rows_of_label = np.flatnonzero(indexes == place)
            size = max(1, self._size(share, len(rows_of_label))) if len(rows_of_label) else 0
            self.counts.append((label, len(rows_of_label), size))
            if size:
                chosen.append(self._some(rows_of_label, size))
        return np.sort(np.concatenate(chosen))

    def _by_weight(self) -> Positions:
        name = self._table.schema.weight
        if name is None:
            raise BadData(where=self._where, reason="has no weights, which exact_by_weight needs")
        weights = numbers(self._table.read((name,)).column(0), name=name, where=self._where)
        if not (weights > 0).any():
            raise BadData(where=self._where, reason=f"none of {len(weights)} weights is above 0")
        negative = int((weights < 0).sum())
        if negative:
            message = f"{negative} of {len(weights)} weights are negative: their rows are left out"
            self._ctx.warn("NegativeWeight", message)
            weights = np.maximum(weights, 0)
        self._bounded(float(np.ceil(weights).sum()))
        times = np.ceil(weights).astype(np.int64)
        return np.repeat(np.arange(len(times)), times)


def _choose_for_all(ctx: Context, table: Table, draw: _Draw) -> Positions:
    """Return the chosen rows and tell the hosts. Raises: BadData: that is not possible."""
    params: FederatedSampleParams = ctx.params
    hosts = ctx.sites_of(Role.HOST)
    ids = _ids(table)
    own = (len(ids), ids_digest(ids))
    differing = []
    for host in hosts:
        theirs = wait_for(ctx, "sample_rows", host)
        if not isinstance(theirs, dict):
            raise CodecError(reason=f"sample_rows of {host} is not an object")
        if (theirs.get("rows"), theirs.get("digest")) != own:
            differing.append(host)
    if not differing:
        chosen = draw.positions()
        plan = {"by": "position", "repeated": params.repeated}
        ctx.federation.send("sample_plan", plan, to=hosts)
        ctx.federation.send("sample_ids", chosen, to=hosts)
        return chosen
    if params.mode.lower() != RANDOM or params.repeated:
        reason = (
            f"{differing[0]} has other ids than {ctx.site}, or another order; align them with "
            f"Intersection first (only random samples without repetition can do without)"
        )
        raise BadData(where="input.data", reason=reason)
    ctx.log.info("The ids of %s differ: rows are chosen by a hash of the id", differing[0])
    key = draw.rng.bytes(8).hex()
    hashes = _hashes(ids, key)
    limit = int(np.partition(hashes, draw.size - 1)[draw.size - 1])
    plan = {"by": "hash", "repeated": False, "key": key, "limit": f"{limit:016x}"}
    ctx.federation.send("sample_plan", plan, to=hosts)
    return np.flatnonzero(hashes <= np.uint64(limit))


def _follow_guest(ctx: Context, table: Table) -> Positions:
    """Return the rows that the guest chose.

    Raises: BadParameter: only one of the two gives rows new ids. CodecError.
    """
    guest = ctx.only(Role.GUEST)
    ids = _ids(table)
    own = {"rows": len(ids), "digest": ids_digest(ids)}
    ctx.federation.send("sample_rows", own, to=guest)
    plan = wait_for(ctx, "sample_plan", guest)
    if not isinstance(plan, dict) or not isinstance(repeated := plan.get("repeated"), bool):
        raise CodecError(reason=f"sample_plan of {guest} is not usable")
    if repeated != ctx.params.repeated:
        reason = "mode and method must be those of the guest: one of the two repeats rows"
        raise BadParameter(path=f"{ctx.component}.method", reason=reason)
    by = plan.get("by")
    if by == "position":
        return received_positions(ctx, "sample_ids", from_=guest, rows=len(ids), repeated=repeated)
    key, limit = (str(plan.get(k)) if by == "hash" else "" for k in ("key", "limit"))
    if not (_KEY.fullmatch(key) and _KEY.fullmatch(limit)):
        raise CodecError(reason=f"sample_plan of {guest} is not usable")
    return np.flatnonzero(_hashes(ids, key) <= np.uint64(int(limit, 16)))


def _hashes(ids: pa.ChunkedArray, key: str) -> Hashes:
    """Return a 64-bit keyed BLAKE2b hash of every id."""
    secret = key.encode()
    digests = (
        hashlib.blake2b(text.encode(), digest_size=8, key=secret).digest()
        for text in ids.to_pylist()
    )
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def _ids(table: Table) -> pa.ChunkedArray:
    return table.read((table.schema.id,)).column(0)


def _record(ctx: Context, draw: _Draw | None, count: int) -> dict[str, Any]:
    """Show how many rows were chosen, and return the summary."""
    mode = ctx.params.mode.lower()
    if mode != STRATIFIED:
        ctx.tracker.metric(
            "sample_count", mode, metric_type="SAMPLE_TEXT", points=[("count", count)]
        )
        return {"sample_count": count}
    if draw is None:  # a host knows no labels
        return {}
    chosen = [(label, size) for label, _, size in draw.counts]
    original = [(label, rows) for label, rows, _ in draw.counts]
    ctx.tracker.metric("sample_count", mode, metric_type="SAMPLE_TABLE", points=chosen)
    ctx.tracker.metric("original_count", mode, metric_type="SAMPLE_TABLE", points=original)
    return {
        "sample_count": {str(label): size for label, size in chosen},
        "original_count": {str(label): rows for label, rows in original},
    }
