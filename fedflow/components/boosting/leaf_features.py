"""SBTFeatureTransformer: the leaves that rows reach in boosted trees, as features of the guest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.boosting.bins import features_of
from fedflow.components.boosting.messages import MESSAGES
from fedflow.components.boosting.stored import (
    GUEST_PARAM,
    HOST_PARAM,
    HostEnsemble,
    read_share,
)
from fedflow.components.boosting.trees import LEAF, BoostedTree
from fedflow.components.boosting.walking import answer_guest, leaves_of
from fedflow.components.samples.alignment import check_same_rows
from fedflow.components.samples.decoding import Instances, read_instances, where_of
from fedflow.components.training.planned import check_roles, input_table
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    Doubt,
    Model,
    Outputs,
    Params,
    PlannedRun,
    Role,
    Table,
    TableSchema,
    component,
)
from fedflow.sdk.spellings import Flag

MOST_COLUMNS: Final = 20_000  #: of the new table
BLOCK_CELLS: Final = 1 << 22  #: that are made at a time

_META, _PARAM = "SBTTransformerMeta", "SBTTransformerParam"

Leaves = Sequence[NDArray[np.int32]]  #: per tree the leaf of every row


class SBTFeatureTransformerParams(Params, frozen=True, kw_only=True):
    """All parameters of SBTFeatureTransformer, with FATE's names."""

    dense_format: Flag = True  #: without effect: tables have a cell for each column

    def doubts(self) -> Iterable[Doubt]:
        if not self.dense_format:
            yield Doubt("dense_format", "tables have a cell for each column")

    def check_run(self, run: PlannedRun) -> None:
        check_roles(run, "SBTFeatureTransformer", single=(Role.GUEST,), hosts=None)


@component(
    "SBTFeatureTransformer",
    roles=("guest", "host"),
    params=SBTFeatureTransformerParams,
    param_name="SBTTransformParam",
    outputs=("data", "model"),
    messages=MESSAGES,
)
class SBTFeatureTransformer:
    """Makes features of the leaves that rows reach in the trees of a HeteroSecureBoost.

    Put its model on `isometric_model`. All parties must have the same ids in the same order, and
    the columns of the trees. Rows walk as in a prediction, with what parties learn of each other
    there. The guest's table has ids, label and weights as before. Its features are a column
    `sbt_tree_<tree>_leaf_<node>` for each leaf: 1 if the row reaches it, else 0. Hosts have no
    table. At most 20,000 leaves are possible.

    Model: `SBTTransformerMeta`, `SBTTransformerParam` with the party's share of the trees, so that
    a later job can use it without them. Summary at the guest: `original_dimension`,
    `transferred_dimension`. Source: He et al. 2014 (leaves of boosted trees as features).
    """

    def run(self, ctx: Context) -> Outputs:
        """Transform `data`. Raises: BadParameter, BadData, CodecError, PeerFailed."""
        model = _trees_of(ctx)
        found = read_share(ctx, model, where=f"model of {ctx.component}")
        table = input_table(ctx, "data")
        data = read_instances(table, columns=found.columns, keep_missing=True)
        features = features_of(
            data.features,
            use_missing=found.trained.use_missing,
            zero_as_missing=found.trained.zero_as_missing,
            where=where_of(table),
        )
        check_same_rows(ctx, data, tag="transform")
        own = _own_model(ctx, model)
        if isinstance(found, HostEnsemble):
            answer_guest(ctx, found.trees, features, depth=found.trained.depth, tag="transform")
            return Outputs(model=own)
        names = _names(found.trees)
        schema = _schema(table, [name for of_tree in names for name in of_tree.values()])
        leaves = leaves_of(ctx, found.trees, features, tag="transform")
        numbers = [list(of_tree) for of_tree in names]
        summary = {
            "original_dimension": len(table.schema.columns),
            "transferred_dimension": len(schema.columns),
        }
        ctx.tracker.metric(
            "train",
            "sbt_feature_transformer",
            metric_type="SBT_FEATURE_TRANSFORMER",
            meta={"metric_type": "SBT_FEATURE_TRANSFORMER", "trees": len(names), **summary},
        )
        output = _written(ctx, data, schema, leaves, numbers)
        return Outputs(data=(output,), model=own, summary=summary)


def _trees_of(ctx: Context) -> Model:
    """Return this party's share of the trees: of an own model, else of a HeteroSecureBoost.

    Raises: BadParameter: there are no trees, or those of several components.
    """
    wanted = GUEST_PARAM if ctx.site.role is Role.GUEST else HOST_PARAM
    models = list(ctx.inputs.model.values())
    if own := [model for model in models if model.param_name == _PARAM]:
        models = [_inner(own[0], wanted)]
    trees = [model for model in models if model.param_name == wanted]
    if len(trees) != 1:
        reason = f"needs the model of one HeteroSecureBoost; there are {len(trees)}"
        raise BadParameter(path=f"{ctx.component}.isometric_model", reason=reason)
    return trees[0]


def _inner(own: Model, wanted: str) -> Model:
    meta, param = own.meta.get("trees"), own.param.get("trees")
    if not isinstance(meta, dict) or not isinstance(param, dict):
        raise BadData(where="the model input", reason=f"its {_PARAM} has no trees")
    return Model(
        meta_name=wanted.replace("Param", "Meta"), param_name=wanted, meta=meta, param=param
    )


def _own_model(ctx: Context, trees: Model) -> Model:
    return Model(
        meta_name=_META,
        param_name=_PARAM,
        meta={
            "dense_format": ctx.params.dense_format,
            "trees": dict(trees.meta),
        },
        param={"trees": dict(trees.param)},
    )


def _names(trees: Sequence[BoostedTree]) -> list[dict[int, str]]:
    """Return the new columns: per tree the name of each leaf. Raises: BadData: too many."""
    names = [
        {
            number: f"sbt_tree_{place}_leaf_{number}"
            for number, node in enumerate(tree.nodes)
            if node.owner == LEAF
        }
        for place, tree in enumerate(trees)
    ]
    count = sum(map(len, names))
    if count > MOST_COLUMNS:
        reason = f"its trees have {count} leaves; a table takes {MOST_COLUMNS} of them"
        raise BadData(where="the model input", reason=reason)
    return names


def _schema(table: Table, columns: Sequence[str]) -> TableSchema:
    """Return the schema of the output. Raises: BadData: a name is taken."""
    schema = replace(table.schema, columns=tuple(columns), anonymous=())
    if len(set(schema.names)) < len(schema.names):
        reason = "its id, label or weight column has the name of a leaf's column; rename it"
        raise BadData(where=where_of(table), reason=reason)
    return schema


def _written(
    ctx: Context,
    data: Instances,
    schema: TableSchema,
    leaves: Leaves,
    numbers: Sequence[Sequence[int]],
) -> Table:
    """Return the new table; `numbers` are the leaves of each tree."""
    kept = data.table.read(schema.names[: len(schema.names) - len(schema.columns)])
    step = max(1, BLOCK_CELLS // max(1, len(schema.columns)))
    with ctx.tables.create(schema) as writer:
        for start in range(0, data.rows, step):
            rows = slice(start, start + step)
            arrays = [*kept.slice(start, step).columns, *_indicators(leaves, numbers, rows)]
            writer.write(pa.Table.from_arrays(arrays, names=list(schema.names)))
        return writer.close()


def _indicators(
    leaves: Leaves, numbers: Sequence[Sequence[int]], rows: slice
) -> Iterator[pa.Array]:
    """Yield the columns of some rows, leaf after leaf."""
    for at, own in zip(leaves, numbers, strict=True):
        for number in own:
            yield pa.array((at[rows] == number).astype(np.int64))
