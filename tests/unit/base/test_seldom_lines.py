"""Lines of the log that repeat: one a minute, with the number of those left out."""

from __future__ import annotations

import logging

import pytest

from fedflow.base.log import Seldom

LOGGER = logging.getLogger("fedflow.test")


def test_a_line_that_comes_again_is_counted_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom()
    for _ in range(4):
        seldom.log(LOGGER, logging.ERROR, "the disk is full", action="store")
    seldom.log(LOGGER, logging.ERROR, "the disk is gone", action="store")
    assert [r.getMessage() for r in caplog.records] == ["the disk is full", "the disk is gone"]
    seldom._next["fedflow.test: the disk is full"] = (0.0, 3)  # its pause is over
    seldom.log(LOGGER, logging.ERROR, "the disk is full", action="store")
    assert caplog.messages[-1] == "the disk is full (3 more like this since the last line)"
