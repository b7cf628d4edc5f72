"""The model of HeteroFeatureSelection, and its summary.

Source: docs/reference/components.md#metrics and docs/reference/models.md#selection-model;
`pencentage_value_meta` is spelled so there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fedflow.components.samples.columns import anonymous_of
from fedflow.components.selection.deciding import PartySelection, StepResult
from fedflow.components.selection.params import HeteroFeatureSelectionParams
from fedflow.sdk import BadData, Context, Model, TableSchema

META_NAME = "FeatureSelectionMeta"
PARAM_NAME = "FeatureSelectionParam"


def store_model(
    ctx: Context,
    schema: TableSchema,
    *,
    looked_at: Sequence[str],
    results: Sequence[StepResult],
    kept: Sequence[str],
) -> Model:
    """Return the model of a run that looked at some columns and kept some of all."""
    return Model(
        meta_name=META_NAME,
        param_name=PARAM_NAME,
        meta=_meta(ctx.params, looked_at, results),
        param={
            "results": [_result(result) for result in results],
            "final_left_cols": _left(schema.columns, kept),
            "col_names": list(looked_at),
            "host_col_names": _host_columns(results),
            "header": list(schema.columns),
            "col_name_to_anonym_dict": dict(
                zip(schema.columns, anonymous_of(schema, ctx.site), strict=True)
            ),
            "model_name": "HeteroFeatureSelection",
        },
    )


def kept_columns(model: Model, *, where: str) -> tuple[str, ...]:
    """Return the columns that a stored model keeps. Raises: BadData: it is no such model."""
    try:
        left = model.param["final_left_cols"]["left_cols"]
        return tuple(str(name) for name in model.param["header"] if left[name] is True)
    except (KeyError, TypeError) as exc:
        raise BadData(where=where, reason=f"the model is no {PARAM_NAME} ({exc!r})") from exc


def summary_of(
    schema: TableSchema, *, results: Sequence[StepResult], kept: Sequence[str]
) -> dict[str, Any]:
    """Return numbers and names of the own columns before and after each filter, and all.

    A filter that ran several times is shown as one.
    """
    summary: dict[str, Any] = {}
    for result in results:
        before = summary.get(result.step.name, {}).get("last_col_nums", len(result.own.columns))
        names = [name for name in result.own.columns if name in result.own.kept]
        summary[result.step.name] = _counts(before, names)
    return {**summary, "all": _counts(len(schema.columns), kept)}


def _counts(before: int, names: Sequence[str]) -> dict[str, Any]:
    return {"last_col_nums": before, "left_col_nums": len(names), "left_col_names": list(names)}


def _meta(
    params: HeteroFeatureSelectionParams, columns: Sequence[str], results: Sequence[StepResult]
) -> Mapping[str, Any]:
    return {
        "filter_methods": list(params.methods),
        "cols": list(columns),
        "need_run": params.need_run,
        "filter_metas": [
            {
                "metrics": result.step.metric,
                "filter_type": result.step.filter_type,
                "take_high": result.step.take_high,
                "threshold": result.step.threshold,
                "select_federated": result.step.federated,
                "filter_out_names": [
                    name for name in result.own.columns if name not in result.own.kept
                ],
            }
            for result in results
        ],
        "unique_meta": {"eps": params.unique_param.eps},
        "iv_value_meta": {
            "value_threshold": params.iv_value_param.value_threshold,
            "local_only": params.iv_value_param.local_only,
        },
        "iv_percentile_meta": {
            "percentile_threshold": params.iv_percentile_param.percentile_threshold,
            "local_only": params.iv_percentile_param.local_only,
        },
        "iv_top_k_meta": {
            "k": params.iv_top_k_param.k,
            "local_only": params.iv_top_k_param.local_only,
        },
        "variance_coe_meta": {"value_threshold": params.variance_coe_param.value_threshold},
        "outlier_meta": {
            "percentile": params.outlier_param.percentile,
            "upper_threshold": params.outlier_param.upper_threshold,
        },
        "manually_meta": {"filter_out_names": list(params.manually_param.filter_out_names or ())},
        "pencentage_value_meta": {"upper_pct": params.percentage_value_param.upper_pct},
    }


def _result(result: StepResult) -> dict[str, Any]:
    return {
        "filter_name": result.step.name,
        "feature_values": dict(result.own.values),
        "host_feature_values": [{"feature_values": dict(h.values)} for h in result.hosts],
        "left_cols": _left_of(result.own),
        "host_left_cols": [_left_of(host) for host in result.hosts],
    }


def _left_of(party: PartySelection) -> dict[str, Any]:
    return _left(party.columns, party.kept)


def _left(columns: Sequence[str], kept: Collection[str]) -> dict[str, Any]:
    stays = set(kept)
    return {
        "original_cols": list(columns),
        "left_cols": {name: name in stays for name in columns},
    }


def _host_columns(results: Sequence[StepResult]) -> list[dict[str, Any]]:
    """Return the hosts' columns as the first federated step saw them, at the guest."""
    for result in results:
        if result.hosts:
            return [
                {"col_names": list(host.columns), "party_id": host.site.party_id}
                for host in result.hosts
            ]
    return []
