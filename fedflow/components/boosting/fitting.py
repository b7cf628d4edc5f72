"""A run of HeteroSecureBoost: from tables to trees and predictions.

MESSAGES
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.boosting.bins import features_of
from fedflow.components.boosting.losses import loss_of
from fedflow.components.boosting.params import REGRESSION, HeteroSecureBoostParams
from fedflow.components.boosting.rounds import BoostingProgress, GuestRounds, GuestRows, HostRounds
from fedflow.components.boosting.stored import (
    GuestEnsemble,
    HostEnsemble,
    Importance,
    TrainedWith,
    guest_model,
    host_model,
    read_share,
    trained_with,
)
from fedflow.components.boosting.trees import OWN, BoostedTree, HostTree
from fedflow.components.boosting.walking import add_scores, answer_guest, leaves_of
from fedflow.components.samples.alignment import check_same_rows
from fedflow.components.samples.columns import anonymous_of
from fedflow.components.samples.decoding import (
    Instances,
    is_class,
    label_classes,
    label_numbers,
    read_instances,
)
from fedflow.components.samples.predictions import (
    write_class_predictions,
    write_predictions,
    write_values,
)
from fedflow.components.training.cross_validation import cross_validate
from fedflow.components.training.keys import warn_of_short_key
from fedflow.components.training.measures import record_start
from fedflow.components.training.one_vs_rest import agree_on_classes
from fedflow.components.training.params import TreeEncryptParam
from fedflow.components.training.plan import Plan, agree_on_plan, common_step, save_step
from fedflow.components.training.planned import (
    VALIDATION_PORTS,
    check_no_more_columns,
    input_table,
)
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, BadParameter, Context, Model, Outputs, Role, Table
from fedflow.sdk.crypto.schemes import PrivateScheme, PublicScheme, generate_key, parse_key
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError
from fedflow.sdk.params import check_together
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
host_feature_importance | statistics | host -> guest | [{fid, name, count}]: splits per column
public_key | key | guest -> hosts | {n, g} as hexadecimal numbers, `g` of `ou` only; once per run
""")

Floats = NDArray[np.float64]


def run_trees(ctx: Context) -> Outputs:
    """Fit if `train_data` is connected, else predict with the model given.

    Raises: BadParameter, BadData, Diverged, PeerFailed, CodecError.
    """
    params: HeteroSecureBoostParams = ctx.params
    if "train_data" not in ctx.inputs.data:
        return _predict(ctx)
    keys = _Keys()
    if params.cv_param.need_cv:
        return cross_validate(
            ctx,
            param=params.cv_param,
            measures=params.callbacks,
            kind="regression" if params.task == REGRESSION else "binary",
            fit=lambda own: _fit(own, keys),
        )
    return _fit(ctx, keys)


class _Keys:
    """The key pair of a run, which all its trainings share; the guest's."""

    def __init__(self) -> None:
        self._private: PrivateScheme | None = None
        self._public: PublicScheme | None = None

    def private(self, ctx: Context) -> PrivateScheme:
        """Return the guest's key; the first call sends the hosts its public half."""
        if self._private is None:
            encryption = ctx.params.encrypt_param
            warn_of_short_key(ctx, encryption)
            self._private = generate_key(
                encryption.scheme, encryption.key_length, encryption.blinding
            )
            told = self._private.public.to_wire()
            ctx.federation.send("public_key", told, to=ctx.sites_of(Role.HOST))
        return self._private

    def public(self, ctx: Context) -> PublicScheme:
        """Return the guest's public key at a host.

        Raises: BadParameter: it is none of the own `encrypt_param`.
        """
        if self._public is None:
            self._public = _received_key(ctx)
        return self._public


def _received_key(ctx: Context) -> PublicScheme:
    encryption: TreeEncryptParam = ctx.params.encrypt_param
    value = wait_for(ctx, "public_key", ctx.only(Role.GUEST))
    try:
        return parse_key(value, encryption.scheme, encryption.key_length, encryption.blinding)
    except CodecError as exc:
        wanted = f"{encryption.scheme.value} with {encryption.key_length} bits"
        reason = f"this party asks for {wanted}: {exc.message}"
        raise BadParameter(path="encrypt_param.key_length", reason=reason) from exc


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """A data set: `kind` is train, validate or predict."""

    kind: str
    data: Instances
    features: Floats  #: as trees see them


# --- fit ------------------------------------------------------------------------------------------


def _fit(ctx: Context, keys: _Keys) -> Outputs:
    earlier = _earlier(ctx)
    if earlier is not None:
        ctx = _continued(ctx, earlier.trained)
    parts = _parts(ctx, earlier)
    for part in parts:
        check_same_rows(ctx, part.data, tag=part.kind)
    plan = Plan.of(ctx, start=earlier.progress.rounds if earlier else 0)
    agree_on_plan(ctx, plan)
    if ctx.site.role is Role.HOST:
        return _fit_host(ctx, keys, plan, parts, earlier)
    return _fit_guest(ctx, keys, plan, parts, earlier)


def _fit_guest(
    ctx: Context,
    keys: _Keys,
    plan: Plan,
    parts: Sequence[_Part],
    earlier: GuestEnsemble | HostEnsemble | None,
) -> Outputs:
    assert not isinstance(earlier, HostEnsemble)  # noqa: S101  # by the role
    params: HeteroSecureBoostParams = ctx.params
    classes = label_classes(parts[0].data) if params.task != REGRESSION else ()
    if earlier is not None:
        if bool(classes) != bool(earlier.classes) or set(classes) - set(earlier.classes):
            reason = "it was trained for other classes"
            raise BadData(where=f"model of {ctx.component}", reason=reason)
        classes = earlier.classes
    if classes:
        agree_on_classes(ctx, len(classes))
    trained = _trained(params, earlier)
    loss = loss_of(params, classes)
    rounds = GuestRounds(
        ctx,
        plan,
        parts=[_guest_rows(params, part, classes, plan=plan) for part in parts],
        loss=loss,
        class_values=np.array(classes) if len(classes) > 2 else None,
        key=keys.private(ctx),
    )

    def found(importances: Sequence[Importance] = ()) -> GuestEnsemble:
        return GuestEnsemble(
            trained=trained,
            columns=parts[0].data.columns,
            anonymous=anonymous_of(parts[0].data.table.schema, ctx.site),
            per_round=rounds.per_round,
            progress=rounds.progress,
            trees=rounds.trees,
            init_score=rounds.init_score,
            classes=classes,
            importances=importances,
        )

    sites = (ctx.site, *ctx.sites_of(Role.HOST))
    start = _resumed(ctx, plan, earlier)
    assert not isinstance(start, HostEnsemble)  # noqa: S101  # by the role
    if start is None:
        rounds.begin((), BoostingProgress(), init_score=None)
    else:
        rounds.begin(start.trees, start.progress, init_score=start.init_score)
    rounds.run(_saver(ctx, lambda: guest_model(found(), params, sites)))
    rounds.keep_best()
    ensemble = found(_importances(ctx, rounds.trees, parts[0].data.columns))
    table = _write(
        ctx,
        [(part, loss.mean(scores)) for part, scores in zip(parts, rounds.scores, strict=True)],
        classes,
    )
    return Outputs(
        data=(table,), model=guest_model(ensemble, params, sites), summary=_summary(ensemble)
    )


def _fit_host(
    ctx: Context,
    keys: _Keys,
    plan: Plan,
    parts: Sequence[_Part],
    earlier: GuestEnsemble | HostEnsemble | None,
) -> Outputs:
    params: HeteroSecureBoostParams = ctx.params
    count = agree_on_classes(ctx, None) if params.task != REGRESSION else 1
    trained = _trained(params, earlier)
    rounds = HostRounds(
        ctx,
        plan,
        depth=trained.depth,
        parts=[(part.kind, part.features) for part in parts],
        classes=count,
        key=keys.public(ctx),
    )
    if earlier is not None and earlier.per_round != rounds.per_round:
        reason = f"it has {earlier.per_round} trees per round, the guest asks for another number"
        raise BadData(where=f"model of {ctx.component}", reason=reason)

    def model() -> Model:
        found = HostEnsemble(
            trained=trained,
            columns=parts[0].data.columns,
            anonymous=anonymous_of(parts[0].data.table.schema, ctx.site),
            per_round=rounds.per_round,
            progress=rounds.progress,
            trees=rounds.trees,
        )
        return host_model(found, params, ctx.site)

    start = _resumed(ctx, plan, earlier)
    assert not isinstance(start, GuestEnsemble)  # noqa: S101  # by the role
    rounds.begin(start.trees if start else (), start.progress if start else BoostingProgress())
    rounds.run(_saver(ctx, model))
    rounds.keep_best()
    _send_importances(ctx, rounds.trees, parts[0].data)
    summary = {
        "best_iteration": rounds.progress.best,
        "is_converged": rounds.progress.converged,
    }
    return Outputs(model=model(), summary=summary)


def _continued(ctx: Context, trained: TrainedWith) -> Context:
    """Return a context to go on training with what decides the meaning of earlier trees."""
    given: HeteroSecureBoostParams = ctx.params
    params = _with_trained(ctx, trained)
    pairs = (
        ("task_type", given.task, params.task),
        ("objective_param", _objective(given), _objective(params)),
        ("multi_mode", given.multi_mode.lower(), params.multi_mode),
        ("learning_rate", given.learning_rate, params.learning_rate),
        ("use_missing", given.uses_missing, params.uses_missing),
        ("zero_as_missing", given.zero_is_missing, params.zero_is_missing),
    )
    for name, own, used in pairs:
        if own != used:
            message = "is not used: that of the model to start from counts"
            ctx.warn("Replaced", message, path=name)
    return replace(ctx, params=params)


def _with_trained(ctx: Context, trained: TrainedWith) -> HeteroSecureBoostParams:
    """Return the parameters with what trees mean. Raises: BadParameter: the two do not fit."""
    params = trained.into(ctx.params)
    check_together(params, path=ctx.component)
    return params


def _objective(params: HeteroSecureBoostParams) -> tuple[str, tuple[float, ...]]:
    return params.objective_param.kind, tuple(params.objective_param.params or ())


def _trained(
    params: HeteroSecureBoostParams, earlier: GuestEnsemble | HostEnsemble | None
) -> TrainedWith:
    depth = params.levels.depth
    return trained_with(params, depth=max(depth, earlier.trained.depth) if earlier else depth)


def _saver(ctx: Context, model: Callable[[], Model]) -> Callable[[int], None]:
    def save(number: int) -> None:
        save_step(ctx, number, model())

    return save


def _resumed(
    ctx: Context, plan: Plan, earlier: GuestEnsemble | HostEnsemble | None
) -> GuestEnsemble | HostEnsemble | None:
    """Return what the checkpoint that all sites have holds, else `earlier`."""
    start = earlier
    step = common_step(ctx, plan)
    if step is not None and step >= plan.start:
        ctx.log.info("training goes on after round %s of an earlier attempt", step)
        start = read_share(ctx, ctx.checkpoints.load(step).model, where=f"checkpoint {step}")
    if start is not None:
        record_start(ctx, start.progress.rounds)
    return start


def _earlier(ctx: Context) -> GuestEnsemble | HostEnsemble | None:
    """Return the model to start from, None if there is none."""
    if not ctx.inputs.model:
        return None
    found = read_share(
        ctx, next(iter(ctx.inputs.model.values())), where=f"model of {ctx.component}"
    )
    rounds = found.progress.rounds  # the trees of later ones may have been dropped
    fresh = BoostingProgress(rounds=rounds, losses=found.progress.losses[:rounds])
    return replace(found, progress=fresh)


# --- data -----------------------------------------------------------------------------------------


def _parts(ctx: Context, earlier: GuestEnsemble | HostEnsemble | None) -> list[_Part]:
    columns = earlier.columns if earlier else None
    table = input_table(ctx, "train_data")
    parts = [_part(ctx, table, kind="train", columns=columns)]
    if earlier is not None:
        check_no_more_columns(table, known=len(earlier.columns))
    if any(port in ctx.inputs.data for port in VALIDATION_PORTS):
        given = input_table(ctx, *VALIDATION_PORTS)
        columns = parts[0].data.columns
        parts.append(_part(ctx, given, kind="validate", columns=columns))
    return parts


def _part(ctx: Context, table: Table, *, kind: str, columns: tuple[str, ...] | None) -> _Part:
    params: HeteroSecureBoostParams = ctx.params
    data = read_instances(table, columns=columns, keep_missing=True)
    features = features_of(
        data.features,
        use_missing=params.uses_missing,
        zero_as_missing=params.zero_is_missing,
        where=f"table {table.namespace}.{table.name}",
    )
    return _Part(kind=kind, data=data, features=features)


def _guest_rows(
    params: HeteroSecureBoostParams, part: _Part, classes: tuple[Any, ...], *, plan: Plan
) -> GuestRows:
    """Return a data set as it is trained on and measured. Raises: BadData: unusable labels."""
    data = part.data
    if part.kind == "train" and data.weights is not None and (bad := int((data.weights < 0).sum())):
        where = f"table {data.table.namespace}.{data.table.name}"
        raise BadData(where=where, reason=f"{bad} sample weights are negative")
    is_needed = part.kind == "train" or (plan.validates and data.labels is not None)
    labels = _labels(params, data, classes) if is_needed else None
    values = None
    if labels is not None and len(classes) > 2:
        values = np.array(classes)[labels.astype(np.intp)]
    return GuestRows(
        kind=part.kind,
        features=part.features,
        labels=labels,
        classes=values,
        weights=data.weights,
    )


def _labels(params: HeteroSecureBoostParams, data: Instances, classes: tuple[Any, ...]) -> Floats:
    where = f"table {data.table.namespace}.{data.table.name}"
    if params.task == REGRESSION:
        labels = label_numbers(data)
        if params.objective_param.kind == "tweedie" and (bad := int((labels < 0).sum())):
            raise BadData(where=where, reason=f"{bad} labels are negative: not for tweedie")
        return labels
    codes = np.full(data.rows, -1.0)
    for number, value in enumerate(classes):
        codes[is_class(data, value)] = number
    if unknown := int((codes < 0).sum()):
        raise BadData(where=where, reason=f"{unknown} labels are of classes not trained for")
    return codes


# --- predict --------------------------------------------------------------------------------------


def _predict(ctx: Context) -> Outputs:
    found = _earlier(ctx)
    if found is None:
        raise BadParameter(path="input.model", reason="test_data needs a trained model")
    ctx = replace(ctx, params=_with_trained(ctx, found.trained))
    table = input_table(ctx, "test_data", "eval_data")
    part = _part(ctx, table, kind="predict", columns=found.columns)
    check_same_rows(ctx, part.data, tag="predict")
    if isinstance(found, HostEnsemble):
        _answer(ctx, found, part.features)
        return Outputs()
    scores = _scores(ctx, found, part.features)
    mean = loss_of(ctx.params, found.classes).mean(scores)
    return Outputs(data=(_write(ctx, [(part, mean)], found.classes),))


def _answer(ctx: Context, found: HostEnsemble, features: Floats) -> None:
    depth = found.trained.depth
    if not ctx.params.predicts_by_eini:
        answer_guest(ctx, found.trees, features, depth=depth, tag="predict")
        return
    from fedflow.components.boosting import eini_host  # few jobs need it

    eini_host.answer_guest(
        ctx,
        found.trees,
        features,
        _Keys().public,
        width=found.per_round,
        depth=depth,
        tag="predict",
    )


def _scores(ctx: Context, found: GuestEnsemble, features: Floats) -> Floats:
    if ctx.params.predicts_by_eini:
        from fedflow.components.boosting import eini  # few jobs need it

        return eini.scores_of(
            ctx,
            found.trees,
            features,
            _Keys().private,
            init_score=found.init_score,
            tag="predict",
        )
    scores = np.tile(found.init_score, (len(features), 1))
    leaves = leaves_of(ctx, found.trees, features, tag="predict")
    add_scores(scores, found.trees, leaves, learning_rate=ctx.params.learning_rate)
    return scores


def _write(ctx: Context, parts: Sequence[tuple[_Part, Floats]], classes: tuple[Any, ...]) -> Table:
    scored = [(part.kind, part.data, predicted) for part, predicted in parts]
    if not classes:
        return write_values(ctx, scored)
    if len(classes) > 2:
        return write_class_predictions(ctx, scored, classes=classes)
    threshold = ctx.params.predict_param.threshold
    return write_predictions(ctx, scored, classes=classes, threshold=threshold)


# --- summary and importance -----------------------------------------------------------------------


def _summary(found: GuestEnsemble) -> dict[str, Any]:
    progress = found.progress
    summary: dict[str, Any] = {
        "loss_history": list(progress.losses),
        "best_iteration": progress.best,
        "feature_importance": {one.fullname: one.importance for one in found.importances},
        "is_converged": progress.converged,
    }
    if progress.history:
        summary["validation_metrics"] = progress.history
    return summary


class _ColumnSplits(msgspec.Struct, frozen=True, kw_only=True):
    fid: Annotated[int, Meta(ge=0)]
    name: str
    count: Annotated[int, Meta(ge=1)]


def _send_importances(ctx: Context, trees: Sequence[HostTree], data: Instances) -> None:
    names = anonymous_of(data.table.schema, ctx.site)
    counts = np.zeros(len(names), dtype=np.int64)
    for tree in trees:
        for split in tree.splits.values():
            counts[split.column] += 1
    used = [
        {"fid": number, "name": names[number], "count": count}
        for number, count in enumerate(counts.tolist())
        if count
    ]
    ctx.federation.send("host_feature_importance", used, to=ctx.only(Role.GUEST))


def _importances(
    ctx: Context, trees: Sequence[BoostedTree], columns: Sequence[str]
) -> list[Importance]:
    """Return the importance of all columns that trees split, the most important first."""
    kind = ctx.params.tree_param.feature_importance_type.lower()
    splits: dict[int, int] = {}
    gains: dict[int, float] = {}
    for tree in trees:
        for node in tree.nodes:
            if node.owner == OWN and node.split is not None:
                column = node.split.column
                splits[column] = splits.get(column, 0) + 1
                gains[column] = gains.get(column, 0.0) + node.gain
    own = [
        Importance(
            sitename=f"guest:{ctx.site.party_id}",
            fid=column,
            fullname=columns[column],
            importance=gains[column] if kind == "gain" else float(count),
            importance2=float(count) if kind == "gain" else gains[column],
            main=kind,
        )
        for column, count in sorted(splits.items())
    ]
    used = Counter(node.owner for tree in trees for node in tree.nodes)
    hosts = _host_importances(ctx, expected=used)
    return sorted([*own, *hosts], key=lambda one: -one.importance)


def _host_importances(ctx: Context, *, expected: Mapping[int, int]) -> list[Importance]:
    """Return what hosts say of their columns; `expected` are splits per owner.

    Raises: CodecError: it does not fit their splits.
    """
    found = []
    for owner, site in enumerate(ctx.sites_of(Role.HOST), start=1):
        value = wait_for(ctx, "host_feature_importance", site)
        try:
            counted = read_as(value, list[_ColumnSplits])
        except msgspec.ValidationError as exc:
            raise CodecError(reason=f"host_feature_importance of {site}: {exc}") from exc
        columns = {one.fid for one in counted}, {one.name for one in counted}
        are_distinct = all(len(some) == len(counted) for some in columns)
        if not are_distinct or sum(one.count for one in counted) != expected.get(owner, 0):
            raise CodecError(reason=f"host_feature_importance of {site}: not those of its splits")
        found += [
            Importance(
                sitename=f"host:{site.party_id}",
                fid=one.fid,
                fullname=one.name,
                importance=float(one.count),
                importance2=0.0,
                main="split",
            )
            for one in counted
        ]
    return found
