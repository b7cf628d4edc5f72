"""HomoOneHotEncoder: one-hot columns that are the same at all parties.

| what a member says, masked | what the arbiter makes of the sums |
|---|---|
| 1 or 0: which bytes follow known beginnings; which columns are text | longer beginnings |

Messages are those of rounds, see `horizontal/messages.py`: the arbiter gets sums alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.features.one_hot import (
    MAX_VALUES,
    Encoding,
    OneHotEncoderParams,
    categories_of,
    check_columns,
    chosen_here,
    encode,
    in_order,
    is_text,
)
from fedflow.components.horizontal.driving import rules_of, run_aggregator, run_member
from fedflow.components.horizontal.messages import MESSAGES
from fedflow.components.horizontal.packing import Layout
from fedflow.components.horizontal.rounds import Newcomer, RoundState, Total
from fedflow.components.samples.agreement import agreed, digest_of, mistake_in, plan_in, refusal
from fedflow.components.samples.common_values import (
    MAX_BYTES,
    Beginnings,
    UnionSearch,
    marks_of,
)
from fedflow.components.samples.decoding import need_rows, where_of
from fedflow.components.samples.stored import own_model
from fedflow.sdk import BadData, Context, Outputs, Role, Site, Table, component
from fedflow.sdk.errors import CodecError
from fedflow.sdk.params import PlannedRun
from fedflow.sdk.spellings import Flag

META: Final = "OHEAlignmentMeta"
PARAM: Final = "OHEAlignmentParam"

Ints = NDArray[np.int64]


class HomoOneHotEncoderParams(OneHotEncoderParams, frozen=True, kw_only=True):
    """All parameters of HomoOneHotEncoder, with FATE's names and defaults."""

    need_alignment: Flag = True  #: false: each party takes its own values, as OneHotEncoder
    #: fedflow's own; keys are signed with the certificates of TLS; over 2/3 of a round's parties
    #: must stay to its end
    aggregator_may_lie: Flag = False

    def check_run(self, run: PlannedRun) -> None:
        shared = self.need_run and self.need_alignment and not run.has_model
        if shared and len(run.sites_of(Role.ARBITER)) != 1:
            raise ValueError("role: one arbiter is needed, which adds up what the parties say")


@component(
    "HomoOneHotEncoder",
    roles=("guest", "host", "arbiter"),
    params=HomoOneHotEncoderParams,
    absence="rounds",
    outputs=("data", "model"),
    param_name="HomoOneHotParam",
    messages=MESSAGES,
)
class HomoOneHotEncoder:
    """Replaces columns of categories by one column of 0 and 1 per category of any party.

    As OneHotEncoder, but with the values of all parties, so that all have the same new columns. All
    parties have the same columns. A value is found byte by byte: each round asks which bytes follow
    the beginnings that are known. Parties say 1 or 0 for each, masked; the arbiter learns sums, so
    the values and how many parties have each, but not which. Values have at most 128 bytes.

    Model: `OHEAlignmentMeta`, `OHEAlignmentParam`, with the fields of OneHotEncoder's. With a model
    input nothing is exchanged, and no arbiter is needed. Summary: as OneHotEncoder. Elastic: values
    that only a lost party has are not among the columns.

    Unlike FATE: the arbiter does not learn which party has which values.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit and transform, or with a model input transform as it was fitted.

        Raises: BadData: as OneHotEncoder, or a value is too long. BadParameter, CodecError,
            PeerFailed, TooFewInRound.
        """
        params: HomoOneHotEncoderParams = ctx.params
        model = own_model(ctx, PARAM)
        if ctx.site.role is Role.ARBITER:
            return _lead(ctx) if model is None else Outputs()
        table = ctx.inputs.first("data")
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        if model is None:
            need_rows(table)
            names = chosen_here(ctx, table)
            found = table.map_columns(categories_of(where_of(table)), names)
            values = dict(zip(names, found, strict=True))
            if params.need_alignment:
                values = _common(ctx, table, values)
            encoding = Encoding(header=table.schema.columns, values=values)
            model = encoding.to_model(need_run=params.need_run, meta_name=META, param_name=PARAM)
        else:
            encoding = Encoding.from_model(model)
            check_columns(ctx, table, encoding)
        output = encode(ctx, table, encoding)
        summary = {
            "original_dimension": len(table.schema.columns),
            "transferred_dimension": len(output.schema.columns),
        }
        return Outputs(data=(output,), model=model, summary=summary)


def _lead(ctx: Context) -> Outputs:
    """Lead the rounds; the model says nothing but that there is one, to a run with a model."""
    params: HomoOneHotEncoderParams = ctx.params
    if not params.need_run:
        return Outputs(passed=True)
    if params.need_alignment:
        run_aggregator(ctx, ValuesCombiner(), rules=rules_of(ctx, fraction_bits=0))
    empty = Encoding(header=(), values={})
    return Outputs(model=empty.to_model(need_run=True, meta_name=META, param_name=PARAM))


class ValuesPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What all parties must agree on."""

    columns: int  #: that are encoded
    names: str  #: digest of their names, in order


class ValuesMember:
    """A party's values."""

    def __init__(
        self,
        names: Sequence[str],
        values: Sequence[Sequence[bytes]],
        texts: Sequence[bool],
        *,
        rows: int,
    ) -> None:
        self._plan = ValuesPlan(columns=len(names), names=digest_of(names))
        self._values = values
        self._texts = texts
        self._rows = rows

    @property
    def newcomer(self) -> Newcomer:
        """Return the plan."""
        return Newcomer(rows=self._rows, about=msgspec.to_builtins(self._plan))

    def work(self, state: RoundState, counted: Sequence[Site]) -> Mapping[str, NDArray[Any]]:
        """Return the marks that a state asks for. Raises: CodecError: it is no such state."""
        try:
            asked = _asked(state)
            marks = [
                marks_of(values, about)
                for values, about in zip(self._values, asked, strict=True)
                if about is not None
            ]
        except (KeyError, TypeError, ValueError, IndexError) as exc:
            raise CodecError(reason=f"the arbiter's state: {exc!r}") from exc
        return {
            "texts": np.array(self._texts, dtype=np.int64),
            "marks": np.concatenate([*marks, np.empty(0, dtype=np.int64)]),
        }

    def took(self, state: RoundState) -> None:
        """Nothing is kept of a state."""


class ValuesCombiner:
    """The arbiter's half: it sees sums alone."""

    needs_singles = False

    def begin(self, newcomers: Mapping[Site, Newcomer]) -> RoundState:
        """Return state 0. Raises: GroupDiffers: the members' columns differ."""
        plan = agreed(newcomers, ValuesPlan)
        return _state(plan, 0, [UnionSearch(most=MAX_VALUES) for _ in range(plan.columns)])

    def admit(self, state: RoundState, newcomer: Newcomer) -> str | None:
        """Return why a late member's columns are not those of the others."""
        return refusal(newcomer, _plan_of(state))

    def mistake(self, state: RoundState) -> str | None:
        """Return why what a member calls the state is none of these rounds."""
        return None if state.ended else mistake_in(state, self.layout)

    def layout(self, state: RoundState) -> Layout:
        """Return the shapes of the marks."""
        columns = _plan_of(state).columns
        marks = sum(about.size for about in _asked(state) if about is not None)
        return {"texts": (columns,), "marks": (marks,)}

    def combine(self, state: RoundState, total: Total) -> RoundState:
        """Return the next state. Raises: ValueError: no sums of marks. BadData: too many values."""
        marks = np.rint(total.arrays["marks"])
        if (marks < 0).any() or (marks > len(total.counted)).any():
            raise ValueError("they are no sums of marks")
        unions, start = _unions(state), 0
        for union in unions:
            if union.asked is not None:
                size = union.asked.size
                union.take(marks[start : start + size].astype(np.int64))
                start += size
        if over := sum(union.too_many for union in unions):
            reason = f"{over} columns have more than {MAX_VALUES} different values"
            raise BadData(where="the parties' rows", reason=reason)
        texts = np.rint(total.arrays["texts"]) > 0
        return _state(_plan_of(state), state.round + 1, unions, texts=texts)


def _state(
    plan: ValuesPlan,
    number: int,
    unions: Sequence[UnionSearch],
    *,
    texts: NDArray[np.bool_] | None = None,
) -> RoundState:
    notes: dict[str, Any] = {"plan": msgspec.to_builtins(plan)}
    ended = texts is not None and all(union.asked is None for union in unions)
    if ended and texts is not None:
        notes["values"] = [
            list(in_order([_text(value) for value in union.values], is_text=bool(text)))
            for union, text in zip(unions, texts, strict=True)
        ]
    else:
        notes["unions"] = [union.to_json() for union in unions]
    return RoundState(round=number, arrays={}, notes=notes, ended=ended)


def _text(value: bytes) -> str:
    """Return a value as text. Raises: ValueError: the sums of marks make none."""
    return value.decode()


def _plan_of(state: RoundState) -> ValuesPlan:
    return plan_in(state.notes["plan"], ValuesPlan)


def _unions(state: RoundState) -> list[UnionSearch]:
    return [UnionSearch.of_json(one, most=MAX_VALUES) for one in state.notes["unions"]]


def _asked(state: RoundState) -> list[Beginnings | None]:
    return [union.asked for union in _unions(state)]


def _common(
    ctx: Context, table: Table, values: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the values of all parties. Raises: BadData: one is too long. CodecError."""
    own = [[value.encode() for value in found] for found in values.values()]
    for name, found in zip(values, own, strict=True):
        if longer := sum(len(value) > MAX_BYTES for value in found):
            reason = f"column {name!r} has {longer} values of more than {MAX_BYTES} bytes"
            raise BadData(where=where_of(table), reason=reason)
    types: pa.Schema = table.head(0).schema
    texts = [is_text(types.field(name).type) for name in values]
    member = ValuesMember(tuple(values), own, texts, rows=table.count)
    state = run_member(ctx, member, rules=rules_of(ctx, fraction_bits=0))
    told = state.notes.get("values")
    if not isinstance(told, list) or len(told) != len(values):
        raise CodecError(reason="the arbiter's values are of other columns")
    return {name: _received(one) for name, one in zip(values, told, strict=True)}


def _received(values: Any) -> tuple[str, ...]:
    """Return one column's values. Raises: CodecError: they are none."""
    if (
        not isinstance(values, list)
        or len(values) > MAX_VALUES
        or not all(isinstance(value, str) for value in values)
        or len(set(values)) < len(values)
    ):
        raise CodecError(reason="the arbiter's values are no list of different texts")
    return tuple(values)
