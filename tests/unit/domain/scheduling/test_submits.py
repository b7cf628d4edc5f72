"""Idempotency keys: where they stand, what they may be, and what they cover."""

from __future__ import annotations

import pytest

from fedflow.base.errors.requests import BadRequest
from fedflow.domain.scheduling.submits import chosen_key, content_digest, key_in_conf, key_in_header


@pytest.mark.parametrize(
    ("header", "key"),
    [('"8e03978e-40d5"', "8e03978e-40d5"), ("plain", "plain"), ('"', '"'), (None, None)],
)
def test_the_header_may_hold_the_key_in_quotes(header: str | None, key: str | None) -> None:
    assert key_in_header(header) == key


def test_the_job_parameters_of_both_versions_may_hold_the_key() -> None:
    assert key_in_conf({"job_parameters": {"common": {"idempotency_key": "k"}}}) == "k"
    assert key_in_conf({"job_parameters": {"idempotency_key": "k"}}) == "k"
    for conf in ({}, None, [], {"job_parameters": 3}, {"job_parameters": {"common": None}}):
        assert key_in_conf(conf) is None
    with pytest.raises(BadRequest):
        key_in_conf({"job_parameters": {"common": {"idempotency_key": 3}}})


@pytest.mark.parametrize("key", ["a", "~" * 255, "8e03978e-40d5-43e8-bc93-6894a57f9324", "a/b:c=d"])
def test_a_key_may_be_any_printable_word(key: str) -> None:
    assert chosen_key([key, None, key]) == key


@pytest.mark.parametrize("key", ["", "a b", 'a"b', "a\\b", "ä", "a\n", "~" * 256])
def test_another_key_is_refused(key: str) -> None:
    with pytest.raises(BadRequest, match="1 to 255"):
        chosen_key([None, key])


def test_two_places_must_not_name_two_keys() -> None:
    with pytest.raises(BadRequest, match="differ"):
        chosen_key(["a", "b", None])
    assert chosen_key([None, None]) is None


def test_the_digest_is_that_of_the_content_whatever_the_order_of_its_members() -> None:
    one = content_digest({"a": 1, "b": [1, 2]}, {"c": {"x": 1, "y": None}})
    assert one == content_digest({"b": [1, 2], "a": 1}, {"c": {"y": None, "x": 1}})
    assert one != content_digest({"a": 1, "b": [2, 1]}, {"c": {"x": 1, "y": None}})
    assert one != content_digest({"a": 1, "b": [1, 2]}, {"c": {"x": 1}})
    assert len(content_digest({"half": "\ud800"}, None)) == 64
