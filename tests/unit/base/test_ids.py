"""Ids are unique, sort by time, and cannot be guessed where that matters."""

from __future__ import annotations

import threading
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.ids import JobIds, is_job_id, new_request_id, new_salt, new_token

NOW_MS = 1_800_000_000_000


def test_a_job_id_is_the_local_time_to_the_microsecond_the_salt_and_a_digit() -> None:
    moment = datetime.fromtimestamp(NOW_MS / 1000)
    assert JobIds(salt=42).next(NOW_MS) == f"{moment:%Y%m%d%H%M%S}0000000420"


@given(st.lists(st.integers(NOW_MS - 1000, NOW_MS + 1000), min_size=2, max_size=50))
def test_job_ids_of_one_maker_grow_even_if_the_clock_goes_back(moments: list[int]) -> None:
    ids = JobIds(salt=0)
    made = [ids.next(now_ms) for now_ms in moments]
    assert made == sorted(set(made))
    assert all(len(job_id) == 24 and is_job_id(job_id) for job_id in made)


@pytest.mark.parametrize(
    "text", ["", "1", "server", "-", "1" * 19, "1" * 26, "2" * 23 + "x", "2" * 24 + "\n", "٢" * 24]
)
def test_what_is_not_20_to_25_digits_is_no_job_id(text: str) -> None:
    assert not is_job_id(text)


def test_servers_with_different_salts_never_make_the_same_id() -> None:
    a, b = JobIds(salt=1), JobIds(salt=2)
    assert not {a.next(NOW_MS) for _ in range(100)} & {b.next(NOW_MS) for _ in range(100)}


def test_a_salt_is_cut_to_three_digits() -> None:
    assert JobIds(salt=10_999).next(NOW_MS).endswith("9990")
    assert all(0 <= new_salt() < 1000 for _ in range(50))


def test_job_ids_are_unique_across_threads() -> None:
    ids = JobIds(salt=7)
    made: list[str] = []

    def work() -> None:
        made.extend([ids.next(NOW_MS) for _ in range(500)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 2000


def test_request_ids_and_tokens_are_32_hexadecimal_digits_and_differ() -> None:
    for make in (new_request_id, new_token):
        made = {make() for _ in range(200)}
        assert len(made) == 200
        assert all(len(text) == 32 and int(text, 16) >= 0 for text in made)
