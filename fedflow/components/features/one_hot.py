"""OneHotEncoder: a column of categories becomes one column of 0 and 1 per category."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.samples.columns import anonymous_of, columns_here
from fedflow.components.samples.decoding import need_rows, where_of
from fedflow.components.samples.progress import part_of
from fedflow.components.samples.stored import need_columns, own_model
from fedflow.sdk import (
    BadData,
    Context,
    Model,
    Outputs,
    Params,
    Table,
    TableSchema,
    component,
)
from fedflow.sdk.spellings import Flag

MAX_VALUES: Final = 1024  #: different values of one column

_META, _PARAM = "OneHotMeta", "OneHotParam"


class OneHotEncoderParams(Params, frozen=True, kw_only=True):
    """All parameters of OneHotEncoder, with FATE's names and defaults."""

    transform_col_indexes: int | list[int] | None = -1  #: indexes, from 0; -1: all features
    transform_col_names: list[str] | None = None  #: further columns, by name
    need_run: Flag = True  #: false: the data pass through unchanged


@component(
    "OneHotEncoder",
    roles=("guest", "host"),
    params=OneHotEncoderParams,
    outputs=("data", "model"),
    absence="apart",
)
class OneHotEncoder:
    """Replaces columns of categories by one column of 0 and 1 per category.

    Each party transforms its own table; nothing is exchanged. Values must be whole numbers or
    texts, at most 1024 different ones per column. The new columns `<column>_<value>` stand where
    the column was, numbers ascending, texts in alphabetical order (FATE: in no order), and hold
    integers. A value that was not there when the model was made, and a missing one, is 0 in all.

    Model: `OneHotMeta`, `OneHotParam` (`col_map`: values as text, and new names, per column).
    Summary: `original_dimension`, `transferred_dimension`: the numbers of features.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit and transform, or with a model input transform as it was fitted.

        Raises: BadData: no rows to fit to, a value that is no category, too many of them, a
            column's new name is another one's, or a column of the model is missing.
        """
        table = ctx.inputs.first("data")
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
        params: OneHotEncoderParams = ctx.params
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        model = own_model(ctx, _PARAM)
        if model is None:
            need_rows(table)
            names = chosen_here(ctx, table)
            values = table.map_columns(categories_of(where_of(table)), names)
            encoding = Encoding(
                header=table.schema.columns, values=dict(zip(names, values, strict=True))
            )
            model = encoding.to_model(need_run=params.need_run)
        else:
            encoding = Encoding.from_model(model)
            check_columns(ctx, table, encoding)
        output = encode(ctx, table, encoding)
        return Outputs(
            data=(output,),
            model=model,
            summary={
                "original_dimension": len(table.schema.columns),
                "transferred_dimension": len(output.schema.columns),
            },
        )


def chosen_here(ctx: Context, table: Table) -> tuple[str, ...]:
    """Return the columns that the parameters choose. Raises: BadParameter: a negative index."""
    params: OneHotEncoderParams = ctx.params
    return columns_here(
        ctx,
        table.schema,
        params.transform_col_indexes,
        params.transform_col_names,
        field="transform_col_indexes",
        names_field="transform_col_names",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoding:
    """The categories of each encoded column, as text, in order."""

    header: tuple[str, ...]  #: of the table that it was made of
    values: Mapping[str, tuple[str, ...]]

    def names(self, column: str) -> list[str]:
        """Return what becomes of a column: its new columns, or itself."""
        if column not in self.values:
            return [column]
        return [f"{column}_{value}" for value in self.values[column]]

    def to_model(
        self, *, need_run: bool, meta_name: str = _META, param_name: str = _PARAM
    ) -> Model:
        """Return the model objects."""
        return Model(
            meta_name=meta_name,
            param_name=param_name,
            meta={
                "transform_col_names": list(self.values),
                "header": list(self.header),
                "need_run": need_run,
            },
            param={
                "col_map": {
                    column: {"values": list(values), "transformed_headers": self.names(column)}
                    for column, values in self.values.items()
                },
                "result_header": [new for column in self.header for new in self.names(column)],
            },
        )

    @staticmethod
    def from_model(model: Model) -> Encoding:
        """Return what a model says. Raises: BadData: it is no OneHotParam."""
        try:
            col_map = dict(model.param["col_map"])
            return Encoding(
                header=tuple(str(name) for name in model.meta["header"]),
                values={
                    str(column): tuple(str(value) for value in entry["values"])
                    for column, entry in col_map.items()
                },
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise BadData(where="the model input", reason=f"it is no {_PARAM} ({exc!r})") from exc


def check_columns(ctx: Context, table: Table, encoding: Encoding) -> None:
    """Do nothing if `table` has the columns, with categories. Raises: BadData."""
    need_columns(ctx, table, encoding.values)
    where = where_of(table)
    types = table.head(0).schema

    def check(name: str, column: pa.ChunkedArray) -> None:
        _texts(column, name=name, where=where)  # so that all bad cells are counted

    floating = [n for n in encoding.values if pa.types.is_floating(types.field(n).type)]
    for _ in table.map_columns(check, floating):
        pass


def categories_of(where: str) -> Callable[[str, pa.ChunkedArray], tuple[str, ...]]:
    """Return what gives a column's categories as text, in order; it raises BadData."""

    def categories(name: str, column: pa.ChunkedArray) -> tuple[str, ...]:
        found = pc.unique(_texts(column, name=name, where=where)).drop_null().to_pylist()
        if len(found) > MAX_VALUES:
            raise BadData(
                where=where,
                reason=f"column {name!r} has {len(found)} different values in {len(column)} rows; "
                f"{MAX_VALUES} are possible",
            )
        return in_order(found, is_text=is_text(column.type))

    return categories


def in_order(values: Iterable[str], *, is_text: bool) -> tuple[str, ...]:
    """Return a column's categories in order: of the alphabet, or of the numbers.

    Raises: ValueError: they are no numbers.
    """
    return tuple(sorted(values) if is_text else sorted(values, key=int))


def _texts(column: Any, *, name: str, where: str) -> Any:
    """Return the cells of an Arrow column as categories, null where one is missing.

    Raises: BadData: numbers that are not whole, or another type.
    """
    kind = column.type
    if is_text(kind) or pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).cast(pa.string())
    if not pa.types.is_floating(kind):
        raise BadData(where=where, reason=f"column {name!r} is {kind}, neither integers nor texts")
    numbers = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    odd = pc.fill_null(
        pc.or_(pc.not_equal(pc.floor(numbers), numbers), pc.greater(pc.abs(numbers), 2.0**53)),
        False,
    )
    if count := pc.sum(odd).as_py() or 0:
        raise BadData(
            where=where,
            reason=f"column {name!r} has {count} of {len(column)} values that are not whole "
            "numbers; bin it first",
        )
    return numbers.cast(pa.int64()).cast(pa.string())


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column's values are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def encode(ctx: Context, table: Table, encoding: Encoding) -> Table:
    """Return the table with its categories encoded. Raises: BadData: a name is taken."""
    schema = _schema(ctx, table.schema, encoding)
    where, old, new = where_of(table), table.schema, list(schema.names)
    sets = {
        name: pa.array(values, pa.string())
        for name, values in encoding.values.items()
        if name in old.columns
    }

    def encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for name in old.names:
            cells = batch.column(name)
            if name in sets:
                places = pc.index_in(_texts(cells, name=name, where=where), value_set=sets[name])
                arrays.extend(_indicators(places, len(sets[name])))
            else:
                arrays.append(cells)
        return pa.RecordBatch.from_arrays(arrays, names=new)

    return table.map_blocks(encoded, schema=schema, progress=part_of(ctx))


def _indicators(places: pa.Array, count: int) -> list[pa.Array]:
    """Return per category 1 where it is the cell's, else 0; a null is none of them."""
    known = pc.fill_null(places, -1)
    return [pc.equal(known, number).cast(pa.int64()) for number in range(count)]


def _schema(ctx: Context, schema: TableSchema, encoding: Encoding) -> TableSchema:
    """Return the schema of the output. Raises: BadData: a new name is another column's."""
    columns: list[str] = []
    anonymous: list[str] = []
    for name, hidden in zip(schema.columns, anonymous_of(schema, ctx.site), strict=True):
        new = encoding.names(name)
        columns.extend(new)
        anonymous.extend(_anonymous(hidden, new) if name in encoding.values else [hidden])
    names = replace(schema, columns=tuple(columns), anonymous=tuple(anonymous))
    if twice := len(names.names) - len(set(names.names)):
        raise BadData(
            where="the encoded columns", reason=f"{twice} of them have the name of another column"
        )
    return names


def _anonymous(hidden: str, new: Sequence[str]) -> list[str]:
    return [f"{hidden}_{number}" for number in range(len(new))]
