"""The hooks of a service, in their order.

A row that a hook fails has its code and sentence, and the hooks after it do not get it. Each hook
gets copies, and of what it gives only what fits is taken, as copies again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Final

import msgspec

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.errors.serving_process import HookNotUsable
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.hooks.called_hook import CalledHook, HookFailure
from fedflow.serving.hooks.hook import (
    AFTER,
    BEFORE,
    HookAnswer,
    HookRow,
    RowFault,
    open_hook,
)
from fedflow.serving.partners.partner_parts import OnlineRow
from fedflow.serving.services.service_options import HookUse, ServiceOptions

RESERVED: Final = frozenset(
    {"score", "label", "creditScore", "modelId", "modelVersion", "timestamp", "selectedBy",
     "degraded", "degradedReason"}
)  # fmt: skip
"""Members of an answer's `data` that no hook adds."""

MOST_VALUES: Final = 10_000  #: features of a row
MOST_BYTES: Final = 65_536  #: of the members that hooks add to an answer
_VALUES: Final = (str, int, float, bool, type(None))


class Hooks:
    """The hooks of a service. Thread-safe."""

    def __init__(self, before: Sequence[CalledHook], after: Sequence[CalledHook]) -> None:
        self._before = before
        self._after = after

    def before(
        self, rows: Sequence[OnlineRow], *, partner_ids: Sequence[str] | None = None
    ) -> list[OnlineRow | ItemAnswer]:
        """Return rows for the model, in the place of one that has no score its answer.

        `partner_ids` are names of ids that may go to the hosts; None: any.
        """
        found: list[OnlineRow | ItemAnswer] = list(rows)
        for call in self._before:
            left = {n: row for n, row in enumerate(found) if isinstance(row, OnlineRow)}
            numbers = list(left)

            def work(
                chosen: Sequence[int],
                call: CalledHook = call,
                given: Sequence[OnlineRow] = tuple(left.values()),
            ) -> Any:
                return call.hook.before([_hook_row(given[n]) for n in chosen])

            if numbers:
                items = call.run(work, len(numbers))
                for number, item in zip(numbers, items, strict=True):
                    found[number] = _row(call, left[number], item, partner_ids)
        return found

    def after(self, rows: Sequence[OnlineRow], answers: Sequence[ItemAnswer]) -> list[ItemAnswer]:
        """Return the answers to rows; those without a score stay as they are."""
        found = list(answers)
        for call in self._after:
            numbers = [n for n, one in enumerate(found) if not one.retcode]

            def work(
                chosen: Sequence[int],
                call: CalledHook = call,
                given: Sequence[tuple[OnlineRow, ItemAnswer]] = tuple(
                    (rows[n], found[n]) for n in numbers
                ),
            ) -> Any:
                hook_rows = [_hook_row(given[n][0]) for n in chosen]
                return call.hook.after(hook_rows, [_hook_answer(given[n][1]) for n in chosen])

            if numbers:
                items = call.run(work, len(numbers))
                for number, item in zip(numbers, items, strict=True):
                    found[number] = _answer(call, found[number], item)
        return found

    def close(self) -> None:
        """Close the hooks. Calls that are under way end as they would."""
        for call in (*self._before, *self._after):
            call.close()


class UnusableHooks(Hooks):
    """Hooks that were stored and cannot be opened any more: rows fail and say so."""

    def __init__(self, reason: str) -> None:
        super().__init__((), ())
        self._fault = failed(ServingCode.HOOK, reason)

    def before(
        self, rows: Sequence[OnlineRow], *, partner_ids: Sequence[str] | None = None
    ) -> list[OnlineRow | ItemAnswer]:
        """Return the fault for each row."""
        return [self._fault] * len(rows)


NO_HOOKS: Final = Hooks((), ())


def hooks_of(options: ServiceOptions, *, clock: Clock | None = None) -> Hooks:
    """Open the hooks that a service names. Who calls it closes them.

    Raises: HookNotUsable: with the path of what is wrong, such as `before[0].options.names`.
    """
    if not options.before and not options.after:
        return NO_HOOKS
    opened: list[CalledHook] = []
    time = clock if clock is not None else SystemClock()
    try:
        for place, uses in ((BEFORE, options.before), (AFTER, options.after)):
            for number, use in enumerate(uses):
                opened.append(_opened(place, number, use, time))
    except BaseException:
        Hooks(opened, ()).close()
        raise
    number = len(options.before)
    return Hooks(opened[:number], opened[number:])


def _opened(place: str, number: int, use: HookUse, clock: Clock) -> CalledHook:
    try:
        hook = open_hook(place, use.hook, use.options)
    except HookNotUsable as exc:
        path = f"{place}[{number}].{exc.fields['path']}"
        raise HookNotUsable(path=path, reason=exc.fields["reason"]) from exc
    return CalledHook(hook, limit_ms=use.limit_ms, clock=clock)


# --- what goes to a hook, and what comes back -----------------------------------------------------


def _hook_row(row: OnlineRow) -> HookRow:
    return HookRow(features=dict(row.features), ids=dict(row.ids))


def _row(
    call: CalledHook, row: OnlineRow, given: Any, partner_ids: Sequence[str] | None
) -> OnlineRow | ItemAnswer:
    """Return the row that a hook gave."""
    if isinstance(given, HookFailure):
        return given.answer
    if isinstance(given, RowFault):
        return call.refused(given)
    try:
        if not isinstance(given, HookRow):
            return call.wrong("gave something that is no row")
        features, ids = dict(given.features), dict(given.ids)
        if len(features) > MOST_VALUES or not (_are_values(features) and _are_values(ids)):
            return call.wrong("gave features or ids that are no texts and numbers")
        msgspec.msgpack.encode(ids)
    except Exception:  # noqa: BLE001  its mappings may be anything
        return call.wrong("gave something that is no row")
    if not _same(ids, row.ids):
        if not call.may_change_ids:
            return call.wrong("changed ids for the partners, and has no right to")
        if partner_ids is not None and not ids.keys() <= set(partner_ids):
            return call.wrong("added ids that may not leave this site")
    return replace(row, features=features, ids=ids)


def _same(ids: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Tell whether ids are equal, and of the same types: 1 is not true."""
    types = {name: type(value) for name, value in ids.items()}
    return ids == others and types == {name: type(value) for name, value in others.items()}


def _are_values(values: Mapping[Any, Any]) -> bool:
    return all(type(n) is str and isinstance(v, _VALUES) for n, v in values.items())


def _hook_answer(item: ItemAnswer) -> HookAnswer:
    score = list(item.score) if isinstance(item.score, list) else item.score
    return HookAnswer(
        score=score,
        label=item.label,
        credit_score=item.credit_score,
        degraded=item.degraded is not None,
        more=_copied(item.more or {}),
    )


def _answer(call: CalledHook, item: ItemAnswer, given: Any) -> ItemAnswer:
    """Return the answer that a hook gave."""
    if isinstance(given, HookFailure):
        return given.answer
    if isinstance(given, RowFault):
        return call.refused(given)
    try:
        if not isinstance(given, HookAnswer):
            return call.wrong("gave something that is no answer")
        score = _numbers(given.score)
        credit = None if given.credit_score is None else _numbers(given.credit_score)
        if not isinstance(given.label, str | int | float | None):
            return call.wrong("gave a label that is neither text nor number")
        msgspec.json.encode(given.label)
        more = _copied(given.more)
    except Exception:  # noqa: BLE001  its values may be anything
        return call.wrong("gave an answer that cannot be used")
    if taken := RESERVED & more.keys():
        return call.wrong(f"gave a member {min(taken)}, which answers have")
    return replace(item, score=score, label=given.label, credit_score=credit, more=more or None)


def _numbers(given: Any) -> Any:
    """Return a number, or a list of some. Raises: ValueError, TypeError: they are not finite."""
    if isinstance(given, list):
        return [_numbers(one) for one in given]
    if isinstance(given, bool) or not isfinite(given):
        raise ValueError("not a finite number")
    return float(given)


def _copied(more: Mapping[str, Any]) -> dict[str, Any]:
    """Return what JSON holds of members. Raises: MsgspecError, ValueError, TypeError: it cannot."""
    if not more:
        return {}
    raw = msgspec.json.encode(dict(more))
    if len(raw) > MOST_BYTES:
        raise ValueError("too much")
    copied = msgspec.json.decode(raw)
    if copied.keys() != more.keys():
        raise ValueError("names are no texts")
    return dict(copied)
