"""Parties that break the rules of rounds are named, in every horizontal component."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.sdk import BadData, DishonestParty, GroupDiffers, RoundsFailed, Site
from tests.unit.components.homo_parties import ARBITER, GUEST, HOST, HOST_2
from tests.unit.components.tampering import (
    MODULES,
    Change,
    Message,
    run_tampered,
    stage_of,
)

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="needs the extra nn")
ALL = [pytest.param(name, marks=needs_torch if name == "HomoNN" else ()) for name in MODULES]
TRAINED = ALL[:2]


@pytest.mark.parametrize("name", ALL)
def test_signed_rounds_end_as_others_do(name: str, tmp_path: Path) -> None:
    plain, signed = (
        run_tampered(name, tmp_path / str(signed), signed=signed) for signed in (False, True)
    )
    for site in (GUEST, HOST, HOST_2):
        assert signed[0][site].error is None, signed[0][site].error
        assert signed[0][site].outputs.model == plain[0][site].outputs.model
        assert "KeysNotSigned" not in [warning.code for warning in signed[0][site].warnings]
    stages = {stage_of(value) for _, _, value in signed[1].seen}
    assert "confirmations" in stages
    assert "confirmations" not in {stage_of(value) for _, _, value in plain[1].seen}


def swaps_keys(source: Site, destination: Site, value: Message) -> Message:
    """Give the guest keys of the arbiter's own as those of the first host."""
    if destination != GUEST or value["kind"] != "question" or stage_of(value) != "shares":
        return value
    body = value["body"]
    own = bytes(range(1, 65))
    return {**value, "body": {**body, "keys": body["keys"][:64] + own + body["keys"][128:]}}


def joins_in(source: Site, destination: Site, value: Message) -> Message:
    """Make the arbiter a member, whose vector it can take off the sum."""
    if destination != GUEST or value["kind"] != "start":
        return value
    return {**value, "members": sorted([ARBITER.key, GUEST.key]), "least": 2}


def leaves_out(source: Site, destination: Site, value: Message) -> Message:
    """Begin a round of two, though all three are needed."""
    if destination != GUEST or value["kind"] != "start":
        return value
    return {**value, "members": [GUEST.key, HOST.key], "least": 2}


def tells_two_sets(source: Site, destination: Site, value: Message) -> Message:
    """Ask for the key of one whose input has arrived."""
    if destination != GUEST or value["kind"] != "question" or stage_of(value) != "unmasking":
        return value
    members = [name for name in value["body"]["members"] if name != HOST_2.key]
    return {**value, "body": {**value["body"], "members": members}}


LIES = {
    "keys": (swaps_keys, "the keys of host-10000 are not signed by it"),
    "itself": (joins_in, "it names arbiter-10002 as a member, which has no rows"),
    "too few": (leaves_out, "it begins a round of 2 members, of which 2 must stay"),
    "two sets": (tells_two_sets, "it names another set of inputs than before"),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("change", "said"), LIES.values(), ids=LIES.keys())
def test_an_arbiter_that_lies_is_named_and_the_round_given_up(
    name: str, change: Change, said: str, tmp_path: Path
) -> None:
    results, federation = run_tampered(name, tmp_path, change, signed=True)
    found = results[GUEST].error
    assert isinstance(found, DishonestParty)
    assert str(found).startswith("arbiter 10002 breaks the rules")
    assert said in str(found)
    assert all(one.outputs is None for one in results.values())
    opened = {site for site, _, value in federation.seen if stage_of(value) == "unmasking"}
    assert GUEST not in opened


@pytest.mark.parametrize("change", [joins_in, leaves_out], ids=["itself", "too few"])
def test_the_members_of_a_round_are_checked_without_signatures_too(
    change: Change, tmp_path: Path
) -> None:
    results, _ = run_tampered("HomoFeatureBinning", tmp_path, change)
    assert isinstance(results[GUEST].error, DishonestParty)


def of_host(kind: str, **fields: Any) -> Change:
    """Return a change of messages of a kind, or of a stage's answers, of the second host."""

    def change(source: Site, destination: Site, value: Message) -> Message:
        if source != HOST_2 or stage_of(value) != kind:
            return value
        if kind == value["kind"]:
            return {**value, **{name: _new(value[name], one) for name, one in fields.items()}}
        body = {**value["body"]}
        body |= {name: _new(body[name], one) for name, one in fields.items()}
        return {**value, "body": body}

    return change


def _new(value: Any, one: Any) -> Any:
    return one(value) if callable(one) else one


def with_one_identity(source: Site, destination: Site, value: Message) -> Message:
    """Give both hosts the same keys."""
    if source not in {HOST, HOST_2} or stage_of(value) != "keys":
        return value
    return {**value, "body": {**value["body"], "keys": bytes(range(1, 65))}}


MASKED: dict[str, tuple[Change, str]] = {
    "no rows": (of_host("ready", rows=0), ">= 1"),
    "too many rows": (of_host("ready", rows=1 << 50), "<= 1099511627776"),
    "rows that are no number": (of_host("ready", rows=2.5), "Expected `int`, got `float`"),
    "a round that has not begun": (
        of_host("inputs", round=lambda number: number + 7),
        "round is",
    ),
    "the name of another": (of_host("inputs", member=HOST.key), "it calls itself 'host-10000'"),
    "not a number": (
        of_host("inputs", vector=lambda v: np.full(v.shape, np.nan)),
        "vector is no uint64 array",
    ),
    "infinite": (
        of_host("inputs", vector=lambda v: np.full(v.shape, np.inf)),
        "vector is no uint64 array",
    ),
    "another shape": (of_host("inputs", vector=lambda v: v[:-1]), "vector is no uint64 array"),
    "a matrix": (of_host("inputs", vector=lambda v: v.reshape(1, -1)), "vector is no uint64"),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize(("change", "said"), MASKED.values(), ids=MASKED.keys())
def test_a_member_with_bad_input_is_named(
    name: str, change: Change, said: str, tmp_path: Path
) -> None:
    error = run_tampered(name, tmp_path, change)[0][ARBITER].error
    assert isinstance(error, DishonestParty)
    assert str(error).startswith("host 10001 breaks the rules")
    assert said in str(error)


@pytest.mark.parametrize("name", TRAINED)
def test_two_members_with_one_identity_are_named(name: str, tmp_path: Path) -> None:
    error = run_tampered(name, tmp_path, with_one_identity)[0][ARBITER].error
    assert isinstance(error, DishonestParty)
    assert "it has a key that another member has" in str(error)


@pytest.mark.parametrize("name", TRAINED)
def test_rows_of_a_masked_vector_that_were_not_announced_give_the_round_up(
    name: str, tmp_path: Path
) -> None:
    def change(source: Site, destination: Site, value: Message) -> Message:
        if source != HOST_2 or value["kind"] != "ready":
            return value
        return {**value, "rows": 7}

    error = run_tampered(name, tmp_path, change)[0][ARBITER].error
    assert isinstance(error, RoundsFailed)
    assert "63 rows in the sum, 48 were announced" in str(error)


PLAIN: dict[str, tuple[Change, str]] = {
    "rows": (
        of_host("answer", body=lambda b: {"vector": np.append(b["vector"][:-1], 99)}),
        "it contributes 99 rows, and said 22",
    ),
    "not a number": (
        of_host("answer", body=lambda b: {"vector": np.full(b["vector"].shape, np.nan)}),
        "it sends no vector",
    ),
    "another shape": (
        of_host("answer", body=lambda b: {"vector": b["vector"][1:]}),
        "its vector has another length",
    ),
    "out of range": (
        of_host("answer", body=lambda b: {"vector": np.full_like(b["vector"], 1 << 62)}),
        "out of range",
    ),
    "a round to come": (of_host("answer", serial=77), "a round that has not begun"),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize(("change", "said"), PLAIN.values(), ids=PLAIN.keys())
def test_a_member_with_a_bad_open_vector_is_named(
    name: str, change: Change, said: str, tmp_path: Path
) -> None:
    trainer = {"param": {"epochs": 2, "secure_aggregate": False}}
    open_ = {"trainer": trainer} if name == "HomoNN" else {"secure_aggregate": False}
    error = run_tampered(name, tmp_path, change, **open_)[0][ARBITER].error
    assert isinstance(error, DishonestParty)
    assert str(error).startswith("host 10001 breaks the rules")
    assert said in str(error)


@pytest.mark.parametrize("name", TRAINED)
def test_a_member_without_what_the_component_needs_is_named(name: str, tmp_path: Path) -> None:
    error = run_tampered(name, tmp_path, of_host("ready", about={}))[0][ARBITER].error
    assert isinstance(error, BadData | GroupDiffers)
    assert "host 10001" in str(error)
