"""What a run returns, and what is said of what cannot be stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedflow.sdk.outputs import Cache, Model, NotPlain, Outputs, check_plain


def model(**param: Any) -> Model:
    return Model(meta_name="MMeta", param_name="MParam", meta={}, param=param)


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        (Outputs(model=model(w=np.zeros(2))),
         "its model is not plain JSON: param.w is a ndarray (use .tolist())"),
        (Outputs(model=model(w=[1.0, np.float32(2)])),
         "its model is not plain JSON: param.w[1] is a float32 (use .item())"),
        (Outputs(summary={"auc": float("nan")}),
         "its summary is not plain JSON: auc is nan (JSON has no NaN and no infinity; use None)"),
        (Outputs(cache=(Cache(private={"key": b"x"}),)),
         "its cache is not plain JSON: private.key is a bytes"),
        (Outputs(summary={"at": {(1, 2): 3}}),
         "its summary is not plain JSON: at has a key that is a tuple (use texts)"),
    ],
)  # fmt: skip
def test_what_is_not_plain_json_is_named_with_its_cure(outputs: Outputs, said: str) -> None:
    with pytest.raises(NotPlain) as caught:
        check_plain(outputs)
    assert str(caught.value).startswith(said)


def test_what_holds_itself_or_is_deep_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (ring, deep):
        with pytest.raises(NotPlain, match="its summary is not plain JSON: x"):
            check_plain(Outputs(summary={"x": value}))


def test_names_deep_inside_are_not_told_to_other_parties() -> None:
    with pytest.raises(NotPlain) as caught:
        check_plain(Outputs(model=model(scores={"id-of-a-person": {1}})))
    assert "id-of-a-person" in str(caught.value)
    assert "id-of-a-person" not in caught.value.for_all
    assert "its model is not plain JSON: param.scores... is a set" in caught.value.for_all


def test_plain_outputs_pass() -> None:
    check_plain(Outputs(model=model(w=[1, 2.5, None, True, "x"], by={1: {}}), summary={"n": 1}))
