"""FeldmanVerifiableSum: sums of columns over parties with the same rows, by verifiable shares.

MESSAGES
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import pyarrow as pa
from gmpy2 import mpz
from msgspec import Meta

from fedflow.components.samples.alignment import check_same_ids
from fedflow.components.samples.columns import columns_here
from fedflow.components.samples.decoding import need_rows, read_instances
from fedflow.components.verifiable.cells import PER_NUMBER, packed, unpacked
from fedflow.components.verifiable.sharing import (
    WIDTH,
    Commitments,
    Pair,
    added,
    deal,
    fits,
    is_member,
    multiplied,
    opened,
    order,
)
from fedflow.components.waiting import wait_for
from fedflow.sdk import (
    BadData,
    Context,
    DishonestParty,
    Outputs,
    Params,
    Role,
    Site,
    TableKind,
    TableSchema,
    component,
)
from fedflow.sdk.errors import CodecError
from fedflow.sdk.params import PlannedRun
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
sample_ids | rows | guest <-> hosts | number of rows, digest of the ids in order
commitments | key | each -> all others | commitments to the coefficients, bytes
commitments_seen | key | each -> all others | digests of the commitments of every party
x_share | masked | each -> each other | the share of its numbers, and of what blinds them, bytes
sum_share | masked | each -> all others | the share of the sums, and of what blinds them, bytes
""")

MOST_CELLS: Final = 5_000_000


class FeldmanVerifiableSumParams(Params, frozen=True, kw_only=True):
    """All parameters of FeldmanVerifiableSum, with FATE's names and defaults."""

    sum_cols: list[int] | None = None  #: indexes of the columns, from 0; null or empty: all
    q_n: Annotated[int, Meta(ge=0, le=16)] = 6  #: decimals that are kept

    def check_run(self, run: PlannedRun) -> None:
        if len(run.sites_of(Role.GUEST)) != 1 or not run.sites_of(Role.HOST):
            raise ValueError("role: a guest and at least one host are needed")


@component(
    "FeldmanVerifiableSum",
    roles=("guest", "host"),
    params=FeldmanVerifiableSumParams,
    outputs=("data",),
    messages=MESSAGES,
)
class FeldmanVerifiableSum:
    """Adds up columns of all parties row by row, so that nobody sees another's numbers.

    All parties have the same ids in the same order, and as many chosen columns. Each splits its
    numbers into shares, of which more than a half of the parties' open them, and commits to them.
    Every share is checked, and so is every share of a sum. A party whose shares do not fit to its
    commitments is named, and nothing is opened.

    Output: at every party the ids and the sums, under the names of its columns, with `q_n`
    decimals; the sums are exact. With two parties, each can subtract its own numbers from the sums.

    Unlike FATE: commitments are blinded, see `verifiable/sharing.py`; several cells are in one
    shared number; all parties get the sums.
    """

    def run(self, ctx: Context) -> Outputs:
        """Share, check, add up and open.

        Raises: BadData: other rows or columns. DishonestParty: shares do not fit. CodecError,
            PeerFailed.
        """
        params: FeldmanVerifiableSumParams = ctx.params
        table = ctx.inputs.first("data")
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
        need_rows(table)
        indexes = params.sum_cols or -1
        columns = columns_here(
            ctx, table.schema, indexes, None, field="sum_cols", names_field="sum_cols"
        )
        data = read_instances(table, columns=columns)
        where = f"table {table.namespace}.{table.name}"
        if data.features.size > MOST_CELLS:
            reason = f"{data.features.size} numbers; {MOST_CELLS} are possible"
            raise BadData(where=where, reason=reason)
        check_same_ids(ctx, data.ids, tag="sum")
        numbers = packed(data.features, decimals=params.q_n, where=where)
        sites = (*ctx.sites_of(Role.GUEST), *ctx.sites_of(Role.HOST))
        sums = _Sum(ctx, sites).of(numbers)
        cells = unpacked(
            sums, count=data.features.size, parties=len(sites), decimals=params.q_n
        ).reshape(data.features.shape)
        schema = TableSchema(kind=TableKind.INSTANCES, id=table.schema.id, columns=columns)
        arrays = {table.schema.id: data.ids, **dict(zip(columns, cells.T, strict=True))}
        with ctx.tables.create(schema) as writer:
            writer.write(pa.table(arrays))
            return Outputs(data=(writer.close(),))


class _Sum:
    """The sums of all parties' numbers, as one of them sees it."""

    def __init__(self, ctx: Context, sites: Sequence[Site]) -> None:
        self._ctx = ctx
        self._sites = sites
        self._number = {site: number for number, site in enumerate(sites, start=1)}
        self._others = [site for site in sites if site != ctx.site]
        self._threshold = max(2, len(sites) // 2 + 1)

    def of(self, numbers: Sequence[int]) -> list[int]:
        """Return the sums. Raises: DishonestParty, CodecError, PeerFailed."""
        ctx, me = self._ctx, self._number[self._ctx.site]
        dealing = deal(numbers, parties=len(self._sites), threshold=self._threshold)
        count, federation = len(numbers), ctx.federation
        flat = [one for of_number in dealing.commitments for one in of_number]
        federation.send("commitments", _to_bytes(flat), to=self._others)
        commitments = {ctx.site: dealing.commitments}
        for site in self._others:
            commitments[site] = self._commitments(site, count)
        self._agree(commitments)
        for site in self._others:
            share = _pairs_to_bytes(dealing.shares[self._number[site]])
            federation.send("x_share", share, to=site)
        ctx.tracker.progress(0.4)
        shares = [dealing.shares[me]]
        for site in self._others:
            given = self._pairs("x_share", site, count)
            if not fits(commitments[site], given, number=me):
                raise self._liar(site, "its share does not fit to its commitments")
            shares.append(given)
        ctx.tracker.progress(0.7)
        own = added(shares)
        federation.send("sum_share", _pairs_to_bytes(own), to=self._others)
        product = multiplied([commitments[site] for site in self._sites])
        found = {me: own}
        for site in self._others:
            given = self._pairs("sum_share", site, count)
            if not fits(product, given, number=self._number[site]):
                raise self._liar(site, "its share of the sums does not fit to the commitments")
            found[self._number[site]] = given
        ctx.tracker.progress(0.95)
        return opened(found)

    def _commitments(self, site: Site, count: int) -> Commitments:
        elements = self._numbers("commitments", site, count * self._threshold)
        if not all(is_member(element) for element in elements):
            raise self._liar(site, "its commitments are not in the group")
        width = self._threshold
        return [elements[at : at + width] for at in range(0, len(elements), width)]

    def _agree(self, commitments: Mapping[Site, Commitments]) -> None:
        """Do nothing if all parties got the same commitments. Raises: DishonestParty."""
        seen = {
            site.key: hashlib.sha256(_to_bytes([e for of in one for e in of])).hexdigest()
            for site, one in commitments.items()
        }
        self._ctx.federation.send("commitments_seen", seen, to=self._others)
        for site in self._others:
            told = wait_for(self._ctx, "commitments_seen", site)
            if not isinstance(told, dict) or set(told) != set(seen):
                raise CodecError(reason=f"{site} sent no digests of the commitments")
            for dealer in self._sites:
                if told[dealer.key] != seen[dealer.key]:
                    blamed = site if dealer in (self._ctx.site, site) else dealer
                    raise self._liar(blamed, f"{site} has other commitments of {dealer}")

    def _pairs(self, name: str, site: Site, count: int) -> list[Pair]:
        numbers = self._numbers(name, site, 2 * count)
        if any(number >= order() for number in numbers):
            raise CodecError(reason=f"{name} of {site}: numbers out of range")
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def _numbers(self, name: str, site: Site, count: int) -> list[mpz]:
        value: Any = wait_for(self._ctx, name, site)
        if not isinstance(value, bytes) or len(value) != count * WIDTH:
            cells = f"{count} numbers, {PER_NUMBER} cells in one"
            raise CodecError(reason=f"{name} of {site}: not {cells}; are its columns as many?")
        view = memoryview(value)
        return [mpz(int.from_bytes(view[at : at + WIDTH])) for at in range(0, len(value), WIDTH)]

    def _liar(self, site: Site, reason: str) -> DishonestParty:
        return DishonestParty(party=str(site), round=0, reason=reason)


def _to_bytes(numbers: Sequence[mpz]) -> bytes:
    return b"".join(int(number).to_bytes(WIDTH) for number in numbers)


def _pairs_to_bytes(pairs: Sequence[Pair]) -> bytes:
    return _to_bytes([number for pair in pairs for number in pair])
