"""Stepwise selection: columns of guest and host are added or removed while a criterion gets better.

Every candidate set of columns is trained in full. All parties list the same candidates of a step,
since they know how many columns both sides have. The arbiter, which knows the losses, says which
one is best by its information criterion, the smaller the better:

    IC = k * dfe + 2 n loss (HeteroLR, HeteroPoisson), k * dfe + n ln(2 loss) (HeteroLinR)

n rows, dfe columns and intercept of the candidate, k = 2 (AIC) or ln n (BIC). The loss is that of
the candidate's last iteration, its penalty included. A model without columns is trained like any
other.

MESSAGES

A mask is a list of booleans, the host's columns first. The messages of candidate i of step k have
the tags `stepwise_<k>_<i>.<tag>`. Source: docs/reference/components.md#stepwise.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fedflow.components.linear.families import Family
from fedflow.components.linear.params import LinearParams, StepwiseParam
from fedflow.components.linear.rows import Rows
from fedflow.components.linear.stored import LinearModel, Trained
from fedflow.components.linear.training import Train
from fedflow.components.samples.columns import anonymous_of
from fedflow.components.samples.progress import part_of
from fedflow.components.training.nested import SilentTracker, nested
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Diverged, Role
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
stepwise_columns | settings | guest <-> host -> arbiter | {columns: their anonymous names, rows}
step_best | statistics | arbiter -> guest, host | {mask, loss, ic}: the best candidate of a step
""")

Mask = tuple[bool, ...]

MAX_COLUMNS = 10_000  #: of both sides; so that a wrong message cannot start trainings without end


@dataclass(frozen=True, kw_only=True, slots=True)
class StepwiseChoice:
    """What the selection found at one party."""

    trained: Trained
    columns: tuple[str, ...]  #: this party's that are kept
    steps: Mapping[str, Any]  #: summary of each step, `step_<k>`


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidate:
    trained: Trained
    loss: float
    criterion: float


def choose_columns(ctx: Context, rows: Rows | None, *, train: Train) -> StepwiseChoice:
    """Return the best columns and the model of them; `rows` are None at the arbiter.

    `train` trains one candidate.

    Raises: BadData, Diverged, PeerFailed, CodecError.
    """
    return _Selection(ctx, rows, train).run()


def criterion(family: Family, score_name: str, *, loss: float, rows: int, dfe: int) -> float:
    """Return the information criterion of a training with `dfe` weights on `rows` rows.

    Raises: ValueError: `loss` is not positive where its logarithm is needed.
    """
    k = 2.0 if score_name.lower() == "aic" else math.log(rows)
    if family.ic_of_squares:
        return k * dfe + rows * math.log(2.0 * loss)
    return k * dfe + 2.0 * rows * loss


def candidates(mask: Mask, param: StepwiseParam) -> list[Mask]:
    """Return the masks to try in a step, the present one not among them."""
    direction, chosen = param.direction.lower(), sum(mask)
    flips: list[int] = []
    if direction != "forward" and chosen > param.nvmin:
        flips += [i for i, is_in in enumerate(mask) if is_in]
    if direction != "backward" and (param.nvmax is None or chosen < param.nvmax):
        flips += [i for i, is_in in enumerate(mask) if not is_in]
    return [tuple(is_in != (i == flip) for i, is_in in enumerate(mask)) for flip in flips]


class _Selection:
    def __init__(self, ctx: Context, rows: Rows | None, train: Train) -> None:
        params: LinearParams = ctx.params
        self._ctx = ctx
        self._rows = rows
        self._params = params
        self._param = params.stepwise_param
        self._guest, self._host = ctx.only(Role.GUEST), ctx.only(Role.HOST)
        self._arbiter = ctx.only(Role.ARBITER)
        names, counts = self._exchange_columns()
        self._host_names, self._guest_names = names[self._host.role], names[self._guest.role]
        self._count = counts
        self._train_one = train
        self._steps: dict[str, Any] = {}

    def run(self) -> StepwiseChoice:
        """Take steps until none is better."""
        names = len(self._host_names) + len(self._guest_names)
        mask: Mask = (self._param.direction.lower() != "forward",) * names
        best = self._train(mask, step=0)
        best, mask = self._agree({mask: best}, step=0)
        self._record(0, mask, best)
        for step in range(1, self._param.max_step + 1):
            tried = {mask: best}
            others = list(candidates(mask, self._param))
            for number, other in enumerate(others):
                tried[other] = self._train(other, step=step, number=number, of=len(others))
            if len(tried) == 1:
                break
            best, chosen = self._agree(tried, step=step)
            self._record(step, chosen, best)
            self._ctx.log.info(
                "step %s of at most %s is done: %s columns, loss %.6g, %s %.6g",
                step, self._param.max_step, sum(chosen), best.loss, self._param.score_name,
                best.criterion,
            )  # fmt: skip
            self._ctx.tracker.progress(step / self._param.max_step)
            if chosen == mask:
                break
            mask = chosen
        return StepwiseChoice(
            trained=best.trained, columns=self._own_columns(mask), steps=self._steps
        )

    def _train(self, mask: Mask, *, step: int, number: int = 0, of: int = 1) -> _Candidate:
        """Train candidate `number` of a step, `of` so many; what it logs are warnings only."""
        steps = self._param.max_step
        start, end = (max(0, step - 1 + part / of) / steps for part in (number, number + 1))
        show = part_of(self._ctx, start=start, end=end if step else 0.0)
        ctx = nested(self._ctx, f"stepwise_{step}_{number}", tracker=SilentTracker(show))
        ctx = replace(ctx, log=_warnings_of(self._ctx.log))
        parts = [] if self._rows is None else [self._rows.select(self._own_columns(mask))]
        ended = self._train_one(
            ctx,
            parts,
            start=None,
            store=lambda trained: LinearModel(parts=(trained,)).to_model(self._params),
        ).trained
        losses = ended.progress.losses
        if not losses:
            return _Candidate(trained=ended, loss=math.nan, criterion=math.nan)
        dfe = sum(mask) + self._params.init_param.fit_intercept
        try:
            value = criterion(
                self._params.family,
                self._param.score_name,
                loss=losses[-1],
                rows=self._count,
                dfe=dfe,
            )
        except ValueError as exc:
            raise Diverged(iteration=ended.progress.iterations, reason="the loss is 0") from exc
        return _Candidate(trained=ended, loss=losses[-1], criterion=value)

    def _agree(self, tried: dict[Mask, _Candidate], *, step: int) -> tuple[_Candidate, Mask]:
        """Return the best of what was tried, which the arbiter names, and its mask."""
        fed, tag = self._ctx.federation, str(step)
        if self._rows is None:
            mask, best = min(tried.items(), key=lambda item: item[1].criterion)
            found = {"mask": list(mask), "loss": best.loss, "ic": best.criterion}
            fed.send("step_best", found, to=(self._guest, self._host), tag=tag)
            return best, mask
        told = wait_for(self._ctx, "step_best", self._arbiter, tag=tag)
        fields = told if isinstance(told, dict) else {}
        given, loss, ic = fields.get("mask"), fields.get("loss"), fields.get("ic")
        mask = tuple(given) if isinstance(given, list) else ()
        if mask not in tried or type(loss) is not float or type(ic) is not float:
            raise CodecError(reason="step_best: not a candidate of this step")
        return _Candidate(trained=tried[mask].trained, loss=loss, criterion=ic), mask

    def _own_columns(self, mask: Mask) -> tuple[str, ...]:
        if self._rows is None:
            return ()
        hosts = len(self._host_names)
        own = mask[:hosts] if self._ctx.site.role is Role.HOST else mask[hosts:]
        return tuple(n for n, is_in in zip(self._rows.data.columns, own, strict=True) if is_in)

    def _exchange_columns(self) -> tuple[dict[Role, list[str]], int]:
        """Return the anonymous names of both sides' columns, and the number of rows."""
        ctx, data_sites = self._ctx, (self._guest, self._host)
        found: dict[Role, list[str]] = {}
        counts = []
        if self._rows is not None:
            schema = self._rows.data.table.schema.select(self._rows.data.columns)
            found[ctx.site.role] = list(anonymous_of(schema, ctx.site))
            counts.append(self._rows.data.rows)
            own = {"columns": found[ctx.site.role], "rows": counts[0]}
            others = [site for site in (*data_sites, self._arbiter) if site != ctx.site]
            ctx.federation.send("stepwise_columns", own, to=others)
        for site in data_sites:
            if site == ctx.site:
                continue
            told = wait_for(ctx, "stepwise_columns", site)
            fields = told if isinstance(told, dict) else {}
            names, rows = fields.get("columns"), fields.get("rows")
            if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
                raise CodecError(reason=f"{site} sent no names of columns")
            if len(names) > MAX_COLUMNS or type(rows) is not int or rows < 1:
                raise CodecError(reason=f"{site} has too many columns, or no rows")
            found[site.role] = names
            counts.append(rows)
        if len(set(counts)) != 1:
            raise CodecError(reason="stepwise_columns: different numbers of rows")
        return found, counts[0]

    def _record(self, step: int, mask: Mask, best: _Candidate) -> None:
        """Record a step as metric and for the summary, with the keys that FATE Board reads."""
        hosts = len(self._host_names)
        found: dict[str, Any] = {
            "host_mask": list(mask[:hosts]),
            "guest_mask": list(mask[hosts:]),
            "score_name": self._param.score_name,
            "number_in": sum(mask),
            "direction": self._param.direction,
            "n_count": self._count,
            "host_features_anonym": self._host_names,
            "guest_features_anonym": self._guest_names,
            "loss": best.loss,
            "current_ic_val": best.criterion,
            "fit_intercept": self._params.init_param.fit_intercept,
        }
        share = best.trained.share
        if self._rows is not None and share is not None:
            columns = self._rows.data.columns
            found |= {
                "all_features": list(columns),
                "to_enter": [name for name in columns if name not in share.columns],
                "intercept": share.intercept,
                "weight": dict(zip(share.columns, share.coef.tolist(), strict=True)),
                "header": list(share.columns),
            }
        self._steps[f"step_{step}"] = found
        name = f"stepwise_{step}"
        meta = {"name": name, "metric_type": "STEPWISE", **found}
        self._ctx.tracker.metric(
            "train", name, metric_type="STEPWISE", points=[(name, step)], meta=meta
        )


def _warnings_of(log: logging.Logger) -> logging.Logger:
    """Return a log that takes warnings only: candidates are many, and each has its iterations."""
    quiet = log.getChild("candidates")
    quiet.setLevel(logging.WARNING)
    return quiet
