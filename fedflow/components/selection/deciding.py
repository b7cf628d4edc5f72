"""Runs the filters one after the other, each on what the one before has left.

Most filters are local: each party judges its own columns by values of its own. Information values,
importances in vertical trees and correlations between parties are known to the guest alone; with
`select_federated` it decides on the hosts' columns too:

MESSAGES

None of these is sent when no step is federated. A host learns which of its columns stay, so how
they compare with each other and with thresholds that it knows from the job's parameters. It gets no
value. The guest learns which columns the host's own filters have left so far. Source:
docs/reference/components.md#selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fedflow.components.samples.columns import anonymous_of, columns_here, warn_of_columns
from fedflow.components.selection.known import Correlations, IsometricModels, Known, Values
from fedflow.components.selection.params import THRESHOLD, HeteroFeatureSelectionParams, Indexes
from fedflow.components.selection.rules import at_least_one, keep_by_value, keep_uncorrelated
from fedflow.components.selection.steps import FilterStep, ValueSource
from fedflow.components.selection.values import values_for
from fedflow.sdk import BadData, BadParameter, Context, Role, Site, Table, TableSchema
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
filters | settings | guest -> hosts | the federated steps: [{filter, metric, type}]
host_select_cols | settings | host -> guest | anonymous names of the columns still there; tag = step
result_left_cols | settings | guest -> host | those of them that stay; tag = step
""")

MAX_COLUMNS: Final = 1_000_000  #: of a host, so that a wrong message cannot exhaust the memory
_MAX_NAME = 500

Column = tuple[Site, str]  #: a host's columns have anonymous names here


@dataclass(frozen=True, kw_only=True, slots=True)
class PartySelection:
    """What a step did to the columns of one party."""

    site: Site
    columns: tuple[str, ...]  #: that were still there before it
    kept: frozenset[str]
    values: Values  #: of `columns`, those that are known


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What one step did, as far as this party knows."""

    step: FilterStep
    own: PartySelection
    hosts: tuple[PartySelection, ...] = ()


def own_names(
    ctx: Context, schema: TableSchema, names: Sequence[str] | None, *, field: str
) -> list[str]:
    """Return names of features from the parameter `field`, which may give anonymous ones.

    Names that are no anonymous ones of this party are left out then, with a warning.
    """
    given = list(names or ())
    if not ctx.params.use_anonymous:
        return given
    known = dict(zip(anonymous_of(schema, ctx.site), schema.columns, strict=True))
    found = [known[name] for name in given if name in known]
    lacking = [name for name in given if name not in known]
    warn_of_columns(ctx, schema, lacking, used=len(found), path=field)
    return found


class Selection:
    """The columns that are still there, and what was done so far."""

    def __init__(
        self,
        ctx: Context,
        *,
        table: Table,
        columns: Sequence[str],
        models: IsometricModels,
    ) -> None:
        self.results: list[StepResult] = []
        self._ctx = ctx
        self._table = table
        self._models = models
        self._columns = tuple(columns)
        schema = table.schema
        self._hidden = dict(zip(schema.columns, anonymous_of(schema, ctx.site), strict=True))
        self._hosts = ctx.sites_of(Role.HOST)

    @property
    def columns(self) -> tuple[str, ...]:
        """The own columns that no step has removed, in table order."""
        return self._columns

    def run(self, steps: Sequence[FilterStep]) -> None:
        """Run all steps. Raises: BadParameter, BadData, CodecError, PeerFailed."""
        self._agree(steps)
        for number, step in enumerate(steps):
            if not step.federated:
                result = StepResult(step=step, own=self._alone(step))
            elif self._ctx.site.role is Role.GUEST:
                result = self._for_all(step, tag=str(number))
            else:
                result = StepResult(step=step, own=self._asked(tag=str(number)))
            self.results.append(result)
            self._columns = tuple(c for c in self._columns if c in result.own.kept)
            self._ctx.tracker.progress((number + 1) / len(steps))

    def _agree(self, steps: Sequence[FilterStep]) -> None:
        """Let guest and hosts compare their federated steps. Raises: BadParameter, CodecError."""
        own = [step.to_json() for step in steps if step.federated]
        if not own:
            return
        fed = self._ctx.federation
        if self._ctx.site.role is Role.GUEST:
            if self._hosts:
                fed.send("filters", own, to=self._hosts)
            return
        theirs = fed.recv("filters", from_=self._ctx.only(Role.GUEST))
        if theirs != own:
            raise BadParameter(
                path=f"{self._ctx.component}.filter_methods",
                reason=f"{self._ctx.site} has other federated filters than the guest; give these"
                " parameters to all parties alike",
            )

    # --- one party alone --------------------------------------------------------------------------

    def _alone(self, step: FilterStep) -> PartySelection:
        if step.source is ValueSource.NOTHING:
            return self._own(self._by_hand(), {}, step)
        found = self._known(step)
        self._warn_of_unknown(step, found)
        if step.source is ValueSource.CORRELATION:
            kept = self._uncorrelated(step, {self._site: self._columns}, {self._site: found.own})
        else:
            kept = self._by_value(step, {self._site: self._columns}, {self._site: found.own})
        return self._own({name for _, name in kept}, found.own, step)

    def _by_hand(self) -> set[str]:
        """Return what `manually` leaves."""
        params: HeteroFeatureSelectionParams = self._ctx.params
        manually, schema = params.manually_param, self._table.schema

        def named(kind: str, indexes: Indexes, names: Sequence[str] | None) -> set[str]:
            field, names_field = (f"manually_param.{kind}_{what}" for what in ("indexes", "names"))
            own = own_names(self._ctx, schema, names, field=names_field)
            return set(
                columns_here(self._ctx, schema, indexes, own, field=field, names_field=names_field)
            )

        if manually.names_left:
            stays = named("left_col", manually.left_col_indexes, manually.left_col_names)
            return set(self._columns) & stays
        goes = named("filter_out", manually.filter_out_indexes, manually.filter_out_names)
        return set(self._columns) - goes

    # --- guest and hosts together -----------------------------------------------------------------

    def _for_all(self, step: FilterStep, *, tag: str) -> StepResult:
        """Decide on all parties' columns, at the guest."""
        fed = self._ctx.federation
        sent = fed.recv_all("host_select_cols", from_=self._hosts, tag=tag) if self._hosts else []
        columns = {self._site: self._columns} | {
            host: _names(value, host) for host, value in zip(self._hosts, sent, strict=True)
        }
        found = self._known(step)
        self._warn_of_unknown(step, found)
        values = {self._site: found.own}
        for host in self._hosts:
            theirs = found.hosts.get(host.party_id, {})
            if step.source is ValueSource.HETERO_TREES:
                theirs = {name: theirs.get(name, 0.0) for name in columns[host]}
            values[host] = theirs
        rule = self._uncorrelated if step.source is ValueSource.CORRELATION else self._by_value
        kept = rule(step, columns, values)
        hosts = []
        for host in self._hosts:
            names = {name for site, name in kept if site == host}
            result = _party(host, columns[host], names, values[host], step)
            left = [name for name in result.columns if name in result.kept]
            fed.send("result_left_cols", left, to=host, tag=tag)
            hosts.append(result)
        own = self._own({name for site, name in kept if site == self._site}, found.own, step)
        return StepResult(step=step, own=own, hosts=tuple(hosts))

    def _asked(self, *, tag: str) -> PartySelection:
        """Let the guest decide on the own columns, at a host. Raises: BadData, CodecError."""
        guest = self._ctx.only(Role.GUEST)
        hidden = {self._hidden[name]: name for name in self._columns}
        if len(hidden) < len(self._columns):
            raise BadData(
                where=f"table {self._table.name}", reason="two columns have one anonymous name"
            )
        self._ctx.federation.send("host_select_cols", list(hidden), to=guest, tag=tag)
        left = _names(self._ctx.federation.recv("result_left_cols", from_=guest, tag=tag), guest)
        if not set(left) <= set(hidden) or (hidden and not left):
            raise CodecError(reason="result_left_cols: not some of the columns sent")
        kept = frozenset(hidden[name] for name in left)
        return PartySelection(site=self._site, columns=self._columns, kept=kept, values={})

    # --- rules ------------------------------------------------------------------------------------

    def _by_value(
        self,
        step: FilterStep,
        columns: Mapping[Site, Sequence[str]],
        values: Mapping[Site, Values],
    ) -> set[Column]:
        return keep_by_value(
            [(site, name) for site, names in columns.items() for name in names],
            {(s, name): value for s, known in values.items() for name, value in known.items()},
            filter_type=step.filter_type,
            take_high=step.take_high,
            threshold_of=lambda column: self._threshold(step, column[0]),
        )

    def _threshold(self, step: FilterStep, site: Site) -> float:
        if step.filter_type == THRESHOLD and step.host_thresholds and site in self._hosts:
            return step.host_thresholds[self._hosts.index(site)]
        return step.threshold

    def _uncorrelated(
        self,
        step: FilterStep,
        columns: Mapping[Site, Sequence[str]],
        values: Mapping[Site, Values],
    ) -> set[Column]:
        flat = [(site, name) for site, names in columns.items() for name in names]
        if self._ctx.site.role is not Role.GUEST:
            return set(flat)
        table = _CorrelationTable(self._models.correlations(), self._site)
        goodness = {(s, name): v for s, known in values.items() for name, v in known.items()}
        return keep_uncorrelated(
            flat,
            goodness,
            correlation=table.between,
            is_own=lambda column: column[0] == self._site,
            threshold=step.threshold,
        )

    # --- helpers ----------------------------------------------------------------------------------

    @property
    def _site(self) -> Site:
        return self._ctx.site

    def _known(self, step: FilterStep) -> Known:
        return values_for(self._ctx, step, self._models, table=self._table, columns=self._columns)

    def _own(self, kept: set[str], values: Values, step: FilterStep) -> PartySelection:
        return _party(self._site, self._columns, kept, values, step)

    def _warn_of_unknown(self, step: FilterStep, found: Known) -> None:
        unknown = [name for name in self._columns if name not in found.own]
        if unknown:
            self._ctx.log.warning(
                "%s: %s of %s columns stay because nothing is known of them: %s",
                step.name,
                len(unknown),
                len(self._columns),
                ", ".join(unknown[:20]),
            )


class _CorrelationTable:
    """Looks up correlations; 0 for columns that were not correlated."""

    def __init__(self, found: Correlations, own: Site) -> None:
        self._found = found
        self._site = own
        self._own = {name: i for i, name in enumerate(found.own)}
        self._remote = {name: i for i, name in enumerate(found.remote)}

    def between(self, one: Column, other: Column) -> float:
        if one[0] != self._site:
            one, other = other, one
        row = self._own.get(one[1])
        if row is None or one[0] != self._site:
            return 0.0
        is_own = other[0] == self._site
        column = (self._own if is_own else self._remote).get(other[1])
        if column is None:
            return 0.0
        return float((self._found.local if is_own else self._found.cross)[row, column])


def _party(
    site: Site, columns: Sequence[str], kept: set[str], values: Values, step: FilterStep
) -> PartySelection:
    """Return what a step left, at least one column."""
    left = at_least_one(columns, kept, values, take_high=step.take_high)
    known = {name: values[name] for name in columns if name in values}
    return PartySelection(site=site, columns=tuple(columns), kept=frozenset(left), values=known)


def _names(value: Any, site: Site) -> tuple[str, ...]:
    """Return a message's names. Raises: CodecError: it has none, too many, or one twice."""
    if (
        not isinstance(value, list)
        or len(value) > MAX_COLUMNS
        or not all(isinstance(name, str) and 0 < len(name) <= _MAX_NAME for name in value)
        or len(set(value)) != len(value)
    ):
        raise CodecError(reason=f"{site} sent no names of columns")
    return tuple(value)
