"""Model objects as FATE's API shows them: fields in camelCase, keys of maps as they are.

Source: `docs/reference/models.md#fields`: the API answers with the JSON form of protobuf
messages, in which a field `loss_history` is `lossHistory` and `classes_` is `classes`. A map from
columns (or labels, or nodes) to values keeps its keys, so a column called `mean_area` stays that.
"""

from __future__ import annotations

from typing import Any, Final

MAPS: Final = frozenset(
    {
        "anonymous_name_mapping",
        "binning_result",
        "class_weight",
        "col_map",
        "col_missing_fill_method",
        "col_name_to_anonym_dict",
        "col_scale_param",
        "cols_replace_method",
        "cols_strategy",
        "counted",
        "encoder_key_type",
        "encoder_value_type",
        "encrypted_weight",
        "exclusive_data_type",
        "feature_name_fid_mapping",
        "feature_values",
        "label_encoder",
        "leaf_count",
        "left_cols",
        "left_out",
        "missing_dir_maskdict",
        "missing_replace_value",
        "missing_replace_value_type",
        "missing_value_ratio",
        "outlier_replace_value",
        "outlier_value_ratio",
        "split_maskdict",
        "total_score",
        "weight",
    }
)  #: fields whose objects have data as keys


def shown(value: Any) -> Any:
    """Return a stored model object with the names that clients read."""
    if isinstance(value, list):
        return [shown(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        camel_case(name): _map(item) if name in MAPS and not _nested(name, item) else shown(item)
        for name, item in value.items()
    }


def camel_case(name: str) -> str:
    """Return a field's name as protobuf's JSON has it."""
    first, *others = name.rstrip("_").split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _map(value: Any) -> Any:
    """Return a map's values as shown, its keys as they are."""
    if not isinstance(value, dict):
        return shown(value)
    return {key: shown(item) for key, item in value.items()}


def _nested(name: str, value: Any) -> bool:
    """Tell whether `value` is the message that holds a map of its own name."""
    return isinstance(value, dict) and isinstance(value.get(name), dict)
