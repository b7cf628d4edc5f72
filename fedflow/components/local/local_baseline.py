"""LocalBaseline: a logistic regression on the columns of one party, by scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.local.fitted import PARAM, FittedBaseline
from fedflow.components.local.params import LocalBaselineParams, LogisticOptions
from fedflow.components.samples.decoding import (
    Instances,
    is_class,
    label_classes,
    numbers,
    read_instances,
)
from fedflow.components.samples.labels import label_key
from fedflow.components.samples.predictions import (
    write_class_predictions,
    write_predictions,
)
from fedflow.components.samples.stored import own_model
from fedflow.sdk import BadData, BadParameter, Context, Outputs, Table, component

Floats = NDArray[np.float64]


@component(
    "LocalBaseline",
    roles=("guest", "host"),
    params=LocalBaselineParams,
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
    absence="apart",
)
class LocalBaseline:
    """Trains scikit-learn's LogisticRegression on a party's own columns, for comparison.

    The party with labels trains and predicts; one whose `train_data` have none (a host of a
    vertical job) does nothing. Weights of rows count. Two classes, or more: a model per class
    (`multi_class` ovr) or one for all. With `train_data` it trains and scores these rows and those
    of `validate_data`; with `test_data` and a model it predicts. Nothing is sent.

    Model: `LocalBaselineMeta`, `LocalBaselineParam` with the fields of HeteroLR's. Summary: `coef`,
    `intercept`, `is_converged`, `iters`, `one_vs_rest`; with several classes these per class.

    Unlike FATE: `model_opts` may hold listed keywords only.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit if `train_data` is connected, else predict.

        Raises: BadParameter: no model to predict with, or options that scikit-learn refuses.
            BadData: no usable labels or features.
        """
        params: LocalBaselineParams = ctx.params
        train = ctx.inputs.first("train_data")
        test = ctx.inputs.first("test_data", *(() if train else ("eval_data",)))
        given = train or test
        if given is None:
            return Outputs()
        if not params.need_run:
            return Outputs(data=(given,), passed=True)
        if train is not None:
            return _fit(ctx, train)
        return _predict(ctx, given)


def _fit(ctx: Context, train: Table) -> Outputs:
    params: LocalBaselineParams = ctx.params
    if train.schema.label is None:
        ctx.log.info("there are no labels here: nothing is trained")
        return Outputs()
    data = read_instances(train)
    if not data.columns:
        raise BadData(where=f"table {train.namespace}.{train.name}", reason="has no features")
    classes = label_classes(data)
    validate = ctx.inputs.first("validate_data", "eval_data")
    validate_rows = None if validate is None else read_instances(validate, columns=data.columns)
    fitted = _train(ctx, data, classes)
    ctx.tracker.progress(0.8)
    parts = [("train", data), *([("validate", validate_rows)] if validate_rows else [])]
    predictions = _scored(ctx, fitted, parts)
    return Outputs(data=(predictions,), model=fitted.to_model(params), summary=fitted.summary())


def _predict(ctx: Context, test: Table) -> Outputs:
    model = own_model(ctx, PARAM)
    if model is None:
        if test.schema.label is None:
            ctx.log.info("there is no model here: nothing is predicted")
            return Outputs()
        raise BadParameter(path="input.model", reason="test_data needs a trained model")
    fitted = FittedBaseline.from_model(model)
    rows = read_instances(test, columns=fitted.header)
    return Outputs(data=(_scored(ctx, fitted, [("predict", rows)]),))


def _train(ctx: Context, data: Instances, classes: tuple[Any, ...]) -> FittedBaseline:
    """Return the model of the rows. Raises: BadParameter: scikit-learn refuses the options."""
    params: LocalBaselineParams = ctx.params
    options = params.options
    codes = np.zeros(data.rows, dtype=np.int64)
    for index, value in enumerate(classes[1:], start=1):
        codes[is_class(data, value)] = index
    several = len(classes) > 2
    one_vs_rest = several and options.one_vs_rest
    targets = [codes == index for index in range(len(classes))] if one_vs_rest else [codes]
    weights = _row_weights(data)
    models = []
    for target in targets:
        own = weights * _class_weights(options, classes, codes)
        models.append(_fit_one(ctx, options, data.features, target.astype(np.int64), own))
    intercepts = [np.broadcast_to(model.intercept_, len(model.coef_)) for model in models]
    iterations = max(int(np.max(model.n_iter_)) for model in models)
    return FittedBaseline(
        header=data.columns,
        classes=classes,
        coef=np.concatenate([model.coef_ for model in models]),
        intercept=np.concatenate(intercepts).astype(np.float64),
        iters=iterations,
        converged=iterations < options.max_iter,
        one_vs_rest=one_vs_rest,
    )


def _fit_one(
    ctx: Context,
    options: LogisticOptions,
    features: Floats,
    target: NDArray[np.int64],
    weights: Floats,
) -> Any:
    """Return scikit-learn's fitted model. Raises: BadParameter: it refuses the options."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    balanced = "balanced" if options.class_weight == "balanced" else None
    model = LogisticRegression(**options.keywords(weights=balanced))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(features, target, sample_weight=weights)
        except ValueError as exc:
            path = f"{ctx.component}.model_opts"
            raise BadParameter(path=path, reason=f"scikit-learn refuses it: {exc}") from exc
    if int(np.max(model.n_iter_)) >= options.max_iter:
        ctx.log.warning("the solver did not converge in %s iterations", options.max_iter)
    return model


def _row_weights(data: Instances) -> Floats:
    """Return the weights as they are stored: with a penalty their scale matters."""
    name = data.table.schema.weight
    if name is None:
        return np.ones(data.rows)
    column = data.table.read((name,)).column(0)
    return numbers(column, name=name, where=f"table {data.table.namespace}.{data.table.name}")


def _class_weights(
    options: LogisticOptions, classes: tuple[Any, ...], codes: NDArray[np.int64]
) -> Floats:
    """Return each row's weight by its class; `balanced` is left to scikit-learn."""
    if not isinstance(options.class_weight, dict):
        return np.ones(len(codes))
    keys = {label_key(label): weight for label, weight in options.class_weight.items()}
    each = np.array([keys.get(label_key(value), 1.0) for value in classes], dtype=np.float64)
    weights: Floats = each[codes]
    return weights


def _scored(ctx: Context, fitted: FittedBaseline, parts: list[tuple[str, Instances]]) -> Table:
    scored = [(kind, data, fitted.probabilities(data.features)) for kind, data in parts]
    if fitted.several:
        return write_class_predictions(ctx, scored, classes=fitted.classes)
    threshold = ctx.params.predict_param.threshold
    return write_predictions(ctx, scored, classes=fitted.classes, threshold=threshold)
