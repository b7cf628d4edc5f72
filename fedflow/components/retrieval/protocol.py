"""The protocol of guest and host.

MESSAGES

The guest learns which of its ids the host has (as by Intersection), and the values of these rows
alone: it can open one block. The host learns how many ids they have in common and, for each block,
which of its rows are in it. One block of all is the real one, the others are drawn at random. Who
asks for overlapping ids again and again shows more each time. Both parties follow the protocol
(semi-honest). Blocks are AES-256-GCM, each key is used once.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedflow.components.intersection.commutative import CommutativeFinder, CommutativeHolder
from fedflow.components.intersection.elements import Positions
from fedflow.components.intersection.hashing import domain_of
from fedflow.components.intersection.sides import Pair, StepProgress
from fedflow.components.retrieval.cells import MAX_WIDTH, pack, unpack
from fedflow.components.retrieval.decoys import random_places
from fedflow.components.retrieval.oblivious import KeyReceiver, KeySender
from fedflow.components.retrieval.params import SecureInformationRetrievalParams
from fedflow.components.samples.positions import received_positions
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadParameter, Context, Role, Site
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
sir_hello | settings | both ways | settings, number of distinct ids
id_ciphertext_exchange_g2h | blinded ids | guest -> host | the guest's ids, blinded, sorted
id_ciphertext_exchange_h2g | blinded ids | host -> guest | the host's ids, blinded, sorted
doubly_encrypted_id | blinded ids | host -> guest | the guest's ids, blinded by both, in that order
block_num | counts | guest -> host | number of blocks, number of ids in each
ot_public | key | host -> guest | the host's part of the transfer of one key of all
ot_choice | key | guest -> host | the guest's part, which hides the number of its block
cell_widths | settings | host -> guest | bytes of the longest cell per column
natural_indexation | rows | guest -> host | places of block i in the host's blinded ids
id_blocks_ciphertext | ciphertext | host -> guest | the rows of block i, encrypted with key i
coverage | counts | guest -> host | share of the guest's distinct ids that were found
raw_id_list | ids | guest -> host | with raw retrieval: the guest's ids
raw_value_list | values | host -> guest | with raw retrieval: places in that list, and their values
""")

PROTOCOL = "fedflow-sir-v1"
MAX_ROWS = 2**31 - 1
_NONCE = bytes(12)  # every key encrypts one block


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievedRows:
    """What the guest has got: rows of its own, and the values of each."""

    rows: Positions  #: which of the distinct ids, ascending
    values: list[pa.Array]  #: per column, one text per row, null where the host has none


class _Hello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each side says of itself."""

    protocol: Annotated[str, msgspec.Meta(max_length=100)]
    rows: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)]
    settings: Annotated[
        dict[str, str | int | float | bool | list[str]], msgspec.Meta(max_length=20)
    ]


def retrieve(ctx: Context, ids: pa.Array) -> RetrievedRows:
    """Return the values that the host has of the guest's distinct `ids`.

    Raises: BadParameter: the host has other settings. CodecError: it sent something unusable.
    """
    params: SecureInformationRetrievalParams = ctx.params
    pair = _pair(ctx, ids, steps=2 + max(1, params.blocks))
    if params.raw:
        return _retrieve_raw(pair)
    finder = CommutativeFinder(pair)
    finder.request()
    places = finder.find()
    rows = np.flatnonzero(places >= 0)
    wanted = np.sort(places[rows])
    pair.send("block_num", {"blocks": params.blocks, "rows": len(rows)})
    choice = secrets.randbelow(params.blocks)
    receiver = KeyReceiver(
        pair.recv("ot_public"),
        choice=choice,
        key_length=params.dh_params.key_length,
        domain=pair.domain,
    )
    pair.send("ot_choice", receiver.answer)
    widths = _parse_widths(pair)
    real: object = None
    for index in range(params.blocks):
        decoy = random_places(len(rows), among=pair.peer_rows)
        asked = wanted if index == choice else decoy
        ctx.federation.send("natural_indexation", asked, to=pair.peer, tag=str(index))
        sealed = wait_for(ctx, "id_blocks_ciphertext", pair.peer, tag=str(index))
        if index == choice:
            real = sealed  # opened after the last one: a pause here would tell the host which it is
        pair.progress.step()(1.0)
    values = unpack(_opened(real, receiver.key), widths, rows=len(rows))
    order = pa.array(np.searchsorted(wanted, places[rows]))
    return RetrievedRows(rows=rows, values=[column.take(order) for column in values])


def serve(ctx: Context, ids: pa.Array, columns: list[pa.Array]) -> float:
    """Answer the guest with values of the host's distinct `ids`; return the coverage.

    `columns` are texts, a row per id. Raises: BadParameter, CodecError, BadData.
    """
    params: SecureInformationRetrievalParams = ctx.params
    pair = _pair(ctx, ids, steps=2 + max(1, params.blocks))
    if params.raw:
        return _serve_raw(pair, columns)
    matrix, widths = pack(columns, names=_column_names(params))
    holder = CommutativeHolder(pair)
    held = holder.offer()
    holder.answer()
    rows = _parse_plan(pair)
    sender = KeySender(key_length=params.dh_params.key_length, domain=pair.domain)
    pair.send("ot_public", sender.public)
    answer = pair.recv("ot_choice")
    pair.send("cell_widths", widths)
    for index, key in enumerate(sender.keys(answer, params.blocks)):
        places = received_positions(
            ctx,
            "natural_indexation",
            from_=pair.peer,
            rows=len(ids),
            repeated=False,
            tag=str(index),
        )
        if len(places) != rows:
            raise CodecError(reason=f"block {index} has {len(places)} places, not {rows}")
        block = matrix[held.order[places]].tobytes()
        sealed = AESGCM(key).encrypt(_NONCE, block, None)
        ctx.federation.send("id_blocks_ciphertext", sealed, to=pair.peer, tag=str(index))
        pair.progress.step()(1.0)
    return _coverage(pair)


def report_coverage(ctx: Context, coverage: float) -> None:
    """Tell the host the share of the guest's distinct ids that were found, which it could count."""
    ctx.federation.send("coverage", coverage, to=ctx.only(Role.HOST))


def _retrieve_raw(pair: Pair) -> RetrievedRows:
    pair.send("raw_id_list", pa.table({"id": pair.ids}))
    sent = pair.recv("raw_value_list")
    names = ["place", *(str(i) for i in range(len(_column_names(pair.ctx.params))))]
    if not isinstance(sent, pa.Table) or sent.column_names != names:
        raise CodecError(reason="raw_value_list is not the table that was asked for")
    places = sent.column("place").combine_chunks()
    if places.type != pa.int64() or places.null_count:
        raise CodecError(reason="raw_value_list has no places")
    rows = places.to_numpy()
    if len(rows) and (rows[0] < 0 or rows[-1] >= len(pair.ids) or (np.diff(rows) < 1).any()):
        raise CodecError(reason="the places in raw_value_list are not those of the ids")
    values = [column.combine_chunks() for column in sent.columns[1:]]
    if any(column.type != pa.string() for column in values):
        raise CodecError(reason="the values in raw_value_list are no texts")
    return RetrievedRows(rows=rows, values=values)


def _serve_raw(pair: Pair, columns: list[pa.Array]) -> float:
    sent = pair.recv("raw_id_list")
    if not isinstance(sent, pa.Table) or sent.column_names != ["id"]:
        raise CodecError(reason="raw_id_list is not a table of ids")
    asked = sent.column("id").combine_chunks()
    if asked.type != pa.string() or len(asked) != pair.peer_rows or asked.null_count:
        raise CodecError(reason="raw_id_list is not what was announced")
    found = pc.index_in(asked, value_set=pair.ids)
    places = pc.indices_nonzero(found.is_valid()).cast(pa.int64())
    own = found.drop_null()
    values = {str(i): column.take(own) for i, column in enumerate(columns)}
    pair.send("raw_value_list", pa.table({"place": places, **values}))
    return _coverage(pair)


def _pair(ctx: Context, ids: pa.Array, *, steps: int) -> Pair:
    """Exchange hellos. Raises: BadParameter: a setting differs. CodecError."""
    params: SecureInformationRetrievalParams = ctx.params
    guest, host = ctx.only(Role.GUEST), ctx.only(Role.HOST)
    peer = host if ctx.site == guest else guest
    own = _settings(params)
    hello = _Hello(protocol=PROTOCOL, rows=len(ids), settings=own)
    ctx.federation.send("sir_hello", msgspec.to_builtins(hello), to=peer)
    theirs = _parse_hello(ctx, peer)
    for name, value in own.items():
        if theirs.settings.get(name) != value:
            reason = f"{peer} has another value; all parties need the same"
            raise BadParameter(path=f"{ctx.component}.{name}", reason=reason)
    domain = domain_of(
        PROTOCOL,
        *(f"{name}={value}" for name, value in own.items()),
        ctx.job_id,
        ctx.component,
        str(ctx.task_version),
        guest.key,
        host.key,
        params.dh_params.salt,
    )
    return Pair(
        ctx=ctx,
        peer=peer,
        ids=ids,
        peer_rows=theirs.rows,
        domain=domain,
        progress=StepProgress(ctx, steps=steps),
    )


def _settings(params: SecureInformationRetrievalParams) -> dict[str, str | int | float | list[str]]:
    return {
        "security_level": params.security_level,
        "raw_retrieval": params.raw_retrieval,
        "target_cols": list(params.columns),
        "dh_params.key_length": params.dh_params.key_length,
        "dh_params.hash_method": params.dh_params.hash_method,
    }


def _parse_hello(ctx: Context, peer: Site) -> _Hello:
    value = wait_for(ctx, "sir_hello", peer)
    try:
        hello = read_as(value, _Hello)
    except msgspec.ValidationError as exc:
        raise CodecError(reason=f"sir_hello of {peer} is not usable: {exc}") from exc
    if hello.protocol != PROTOCOL:
        raise CodecError(reason=f"{peer} uses the protocol {hello.protocol}, not {PROTOCOL}")
    return hello


def _parse_plan(pair: Pair) -> int:
    """Return how many ids are in each block. Raises: CodecError: other than was agreed."""
    plan = pair.recv("block_num")
    blocks = plan.get("blocks") if isinstance(plan, dict) else None
    rows = plan.get("rows") if isinstance(plan, dict) else None
    limit = min(len(pair.ids), pair.peer_rows)
    if blocks != pair.ctx.params.blocks or type(rows) is not int or not 0 <= rows <= limit:
        raise CodecError(reason=f"block_num of {pair.peer} is not what was agreed")
    return rows


def _parse_widths(pair: Pair) -> list[int]:
    widths = pair.recv("cell_widths")
    expected = len(_column_names(pair.ctx.params))
    if (
        not isinstance(widths, list)
        or len(widths) != expected
        or not all(type(width) is int and 0 <= width <= MAX_WIDTH for width in widths)
    ):
        raise CodecError(reason=f"cell_widths of {pair.peer} are not those of {expected} columns")
    return widths


def _column_names(params: SecureInformationRetrievalParams) -> tuple[str, ...]:
    return params.columns or ("label",)


def _opened(sealed: object, key: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(
            _NONCE, bytes(sealed) if isinstance(sealed, bytes) else b"", None
        )
    except InvalidTag as exc:
        raise CodecError(reason="the block was not encrypted with the key that was agreed") from exc


def _coverage(pair: Pair) -> float:
    value = pair.recv("coverage")
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise CodecError(reason=f"coverage of {pair.peer} is no share")
    return float(value)
