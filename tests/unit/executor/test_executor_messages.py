"""Lines between a server and its zygote."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.start import BadSetting
from fedflow.domain.records import Handle
from fedflow.executor.limits import ExecutorLimits
from fedflow.executor.messages import LineReader, encode
from fedflow.executor.processes import is_running, signal_group, start_time_of, this_host
from fedflow.executor.termination import Termination

NOBODY = Handle(pid=2**22 + 1, start_time=1, host=this_host())  # above Linux's highest pid

messages = st.dictionaries(
    st.text(max_size=5), st.text(max_size=20) | st.integers() | st.none(), max_size=4
)


@given(st.lists(messages, max_size=6), st.lists(st.integers(1, 40), min_size=1, max_size=10))
def test_messages_survive_any_cut_of_the_stream(
    sent: list[dict[str, Any]], cuts: list[int]
) -> None:
    stream = b"".join(map(encode, sent))
    reader = LineReader(10_000)
    got: list[dict[str, Any]] = []
    while stream:
        for cut in cuts:
            got.extend(reader.feed(stream[:cut]))
            stream = stream[cut:]
    assert got == sent


def test_a_text_with_line_ends_is_one_message() -> None:
    message = {"reason": "a\nb\r\n\u2028"}
    assert encode(message).count(b"\n") == 1
    assert list(LineReader(100).feed(encode(message))) == [message]


@pytest.mark.parametrize("line", [b"[]\n", b"nonsense\n", b"\n", b"\xff\n", b"x" * 101])
def test_what_is_no_message_or_too_long_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        list(LineReader(100).feed(line))


def test_numbers_that_json_does_not_know_are_not_sent() -> None:
    with pytest.raises(ValueError):
        encode({"x": float("nan")})


def test_a_limit_out_of_range_names_its_key() -> None:
    with pytest.raises(BadSetting, match=r"executor\.start_timeout_s"):
        ExecutorLimits(start_timeout_s=0)


def test_a_process_that_does_not_exist_is_nobody() -> None:
    assert start_time_of(NOBODY.pid) is None
    assert not is_running(NOBODY)
    for number in (0, 15, 9):
        assert not signal_group(NOBODY, number)  # type: ignore[arg-type]


def test_stopping_a_process_that_is_gone_leaves_nothing_to_do() -> None:
    termination = Termination()
    termination.stop(NOBODY, grace_s=5.0)
    assert termination.tick(0.0) is None
