"""SecureInformationRetrieval: a host's values of the guest's ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from fedflow.components.intersection.keys import RowKeys, read_keys
from fedflow.components.retrieval.cells import as_texts
from fedflow.components.retrieval.params import SecureInformationRetrievalParams
from fedflow.components.retrieval.protocol import (
    MESSAGES,
    RetrievedRows,
    report_coverage,
    retrieve,
    serve,
)
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    Model,
    Outputs,
    Role,
    Table,
    TableKind,
    TableSchema,
    component,
)

LABEL_COLUMN = "retrieved_value"  #: what a retrieved label is called
UNRETRIEVED = "unretrieved"  #: the value of ids that the host does not have


@component(
    "SecureInformationRetrieval",
    roles=("guest", "host"),
    params=SecureInformationRetrievalParams,
    outputs=("data", "model"),
    messages=MESSAGES,
)
class SecureInformationRetrieval:
    """Retrieves a host's columns of the guest's ids, and hides which ids the guest has.

    The guest finds the common ids (Pohlig-Hellman), and asks for as many rows of each of n blocks.
    One block is the real one, and the guest can decrypt this one alone (oblivious transfer). The
    host does not learn which block it was; see the protocol for what both learn. With match ids
    these are matched; a host's must not repeat.

    The guest's output has its ids, in their order, and the columns `target_cols` as texts, or
    `retrieved_value` (the host's label). A cell is `unretrieved` where the host does not have the
    id, empty where it has no value. The host has no output.

    Model: `SecureInformationRetrievalMeta`, `SecureInformationRetrievalParam` (`coverage`,
    `block_num`). Summary: `coverage` (share of the guest's rows that were found), `block_num`. The
    host gets the share of distinct ids instead: it does not see how often an id occurs. Metric
    `train` / `sir`: `Coverage`, `Block number`.

    Unlike FATE: groups have at least 2048 bits. Decoys are drawn from the operating system's
    generator. All blocks have the same size whatever is in them. Both parties must name the same
    `target_cols`, so that no column leaves a host that has not said so.
    """

    def run(self, ctx: Context) -> Outputs:
        """Retrieve at the guest, serve at the host.

        Raises: BadParameter: the parties' settings differ, or there is no such column. BadData: no
            rows, repeated ids. CodecError, PeerFailed.
        """
        ctx = replace(ctx, params=ctx.params.settled())
        table = ctx.inputs.first("data")
        if table is None:
            raise BadData(where="input.data", reason="there is no table")
        keys = read_keys(table)
        if ctx.params.raw:
            ctx.log.warning("raw retrieval: the host sees the guest's ids, nothing hides them")
        if ctx.site.role is Role.HOST:
            columns = _columns_of_host(ctx, table, keys)
            coverage = serve(ctx, keys.values, columns)
            return _finish(ctx, None, coverage=coverage)
        found = retrieve(ctx, keys.values)
        written, coverage = _write(ctx, table, keys, found)
        report_coverage(ctx, len(found.rows) / len(keys.values))
        return _finish(ctx, written, coverage=coverage)


def _columns_of_host(ctx: Context, table: Table, keys: RowKeys) -> list[pa.Array]:
    """Return the columns as texts, in the order of the keys. Raises: BadParameter, BadData."""
    params: SecureInformationRetrievalParams = ctx.params
    where = f"table {table.namespace}.{table.name}"
    if keys.repeated:
        reason = f"{keys.repeated} of {len(keys.of_row)} rows repeat a match id"
        raise BadData(where=where, reason=reason)
    if not params.columns and table.schema.label is None:
        raise BadData(where=where, reason="has no label to retrieve; name target_cols")
    known = set(table.schema.columns)
    if unknown := [name for name in params.columns if name not in known]:
        raise BadParameter(
            path=f"{ctx.component}.target_cols",
            reason=f"{len(unknown)} of them are no features of {ctx.site}",
        )
    order = pa.array(keys.row_of_key())
    names = params.columns or (str(table.schema.label),)
    return [as_texts(table.read((name,)).column(0)).take(order) for name in names]


def _write(ctx: Context, table: Table, keys: RowKeys, found: RetrievedRows) -> tuple[Table, float]:
    """Return the guest's table, and the share of its rows that were found."""
    schema = TableSchema(
        kind=TableKind.RAW,
        id=table.schema.id,
        match_id=table.schema.match_id,
        columns=ctx.params.columns or (LABEL_COLUMN,),
    )
    places = np.full(len(keys.values), len(found.rows), dtype=np.int64)
    places[found.rows] = np.arange(len(found.rows))
    of_row = places[keys.of_row]  # row -> place among the found, the last for those that are not
    columns: dict[str, Any] = {schema.id: keys.sample_ids}
    if schema.match_id is not None:
        columns[schema.match_id] = keys.values.take(pa.array(keys.of_row))
    unretrieved = pa.array([UNRETRIEVED])
    for name, values in zip(schema.columns, found.values, strict=True):
        each = pa.concat_arrays([values.fill_null(""), unretrieved])
        columns[name] = each.take(pa.array(of_row))
    with ctx.tables.create(schema) as writer:
        writer.write(pa.table(columns))
        written = writer.close()
    return written, float((of_row < len(found.rows)).mean())


def _finish(ctx: Context, table: Table | None, *, coverage: float) -> Outputs:
    params: SecureInformationRetrievalParams = ctx.params
    shown = params.blocks or "N/A"
    ctx.tracker.metric(
        "train",
        "sir",
        metric_type="INTERSECTION",
        points=[("Coverage", coverage), ("Block number", shown)],
    )
    model = Model(
        meta_name="SecureInformationRetrievalMeta",
        param_name="SecureInformationRetrievalParam",
        meta={
            "security_level": params.security_level,
            "oblivious_transfer_protocol": params.oblivious_transfer_protocol.lower(),
            "commutative_encryption": params.commutative_encryption.lower(),
            "non_committing_encryption": params.non_committing_encryption.lower(),
            "key_size": params.dh_params.key_length,
            "raw_retrieval": params.raw_retrieval,
        },
        param={"coverage": coverage, "block_num": params.blocks},
    )
    summary = {"coverage": coverage, "block_num": params.blocks}
    return Outputs(data=(table,) if table else (), model=model, summary=summary)
