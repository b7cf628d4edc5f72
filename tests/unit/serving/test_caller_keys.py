"""Keys of callers: whose a token is, which services it may ask, and how many rows."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fedflow.base.errors.serving_process import BadServingSetting, TokenNotValid
from fedflow.cli.serving import command as main
from fedflow.serving.codes import ServingCode
from fedflow.serving.doors.caller_keys import CallerKeys, new_key
from fedflow.serving.settings import CallerKey, parse_serving_settings
from tests.sim.clock import FakeClock

TOKEN = "the-token-of-everybody"


def key(name: str, token: str, **more: Any) -> CallerKey:
    return CallerKey(name=name, sha256=sha256(token.encode()).hexdigest(), **more)


def test_a_key_names_its_caller_and_nothing_else_does() -> None:
    keys = CallerKeys([key("bank", "k1"), key("shop", "k2")], TOKEN, FakeClock())
    found = [keys.caller_of(f"Bearer {one}").name for one in ("k1", "k2", TOKEN)]
    assert found == ["bank", "shop", "token"]
    assert keys.caller_of("bearer  k1 ").name == "bank"
    digest = sha256(b"k1").hexdigest()
    for wrong in ("", "Bearer", "Bearer ", "k1", "Basic k1", "Bearer k3", f"Bearer {digest}"):
        with pytest.raises(TokenNotValid):
            keys.caller_of(wrong)
    with pytest.raises(TokenNotValid):
        keys.caller_of("Bearer \udcff\u20ac")


def test_without_keys_and_token_everybody_asks_everything() -> None:
    caller = CallerKeys([], None, FakeClock()).caller_of("Bearer whatever")
    assert (caller.name, caller.fault("credit", 300), caller.fault("")) == ("", None, None)


def test_a_caller_asks_only_its_services() -> None:
    caller = CallerKeys([key("bank", "k", services=("credit",))], None, FakeClock()).caller_of(
        "Bearer k"
    )
    assert caller.fault("credit", 1) is None
    for other in ("fraud", ""):
        fault = caller.fault(other, 1)
        assert fault is not None
        assert fault.retcode == ServingCode.AUTHORISATION


def test_rows_beyond_the_rate_are_refused_and_old_and_new_key_share_it() -> None:
    clock = FakeClock()
    old, new = key("bank", "old", per_second=2.0), key("bank", "new", per_second=2.0)
    keys = CallerKeys([old, new], None, clock)
    callers = [keys.caller_of("Bearer old"), keys.caller_of("Bearer new")]
    assert [one.fault("credit", 1) for one in callers] == [None, None]
    fault = callers[1].fault("credit", 1)
    assert fault is not None
    assert fault.retcode == ServingCode.OVERLOAD
    assert callers[0].fault("credit") is None  # a look costs nothing
    clock.time.ms += 500
    assert callers[0].fault("credit", 1) is None


def test_a_slow_rate_still_lets_single_rows_pass() -> None:
    clock = FakeClock()
    caller = CallerKeys([key("bank", "k", per_second=0.1)], None, clock).caller_of("Bearer k")
    assert caller.fault("credit", 1) is None
    clock.time.ms += 9_000
    assert caller.fault("credit", 1) is not None
    clock.time.ms += 1_000
    assert caller.fault("credit", 1) is None


def test_a_new_key_is_random_and_comes_with_its_digest() -> None:
    (one, digest), (other, _) = new_key(), new_key()
    assert len(one) > 40
    assert one != other
    assert CallerKeys([key("bank", one)], None, FakeClock()).caller_of(f"Bearer {one}")
    assert sha256(one.encode()).hexdigest() == digest


def test_the_command_prints_a_key_and_an_entry_that_the_settings_take() -> None:
    printed = CliRunner().invoke(main, ["key", "bank"]).output
    token = printed.partition("once: ")[2].split()[0]
    entries = yaml.safe_load(printed.partition("process:\n")[2])
    settings = parse_serving_settings({"callers": {"keys": entries}})
    keys = CallerKeys(settings.callers.keys, None, FakeClock())
    assert keys.caller_of(f"Bearer {token}").name == "bank"


def test_the_command_refuses_a_name_that_the_settings_would_refuse() -> None:
    for name in ("a b", "token", "x" * 65):
        done = CliRunner().invoke(main, ["key", name])
        assert isinstance(done.exception, BadServingSetting)
