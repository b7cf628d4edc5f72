"""SecureAddExample: the sum is right, and no message shows a number."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data_plane import CodecError
from fedflow.base.errors.error import FedflowError
from fedflow.components.toy.secure_add_example import SecureAddExample
from fedflow.domain.site import Role, Site
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import RunResult, outputs_of, run_component

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]
HOST_2 = Site(Role.HOST, "10001")  # type: ignore[arg-type]


def run(tmp_path: Path, params: Mapping[Site, Mapping[str, Any]]) -> dict[Site, RunResult]:
    return run_component(
        SecureAddExample, sites=tuple(params), work_dir=tmp_path, params=dict(params)
    )


def test_the_toy_job_of_the_flow_client_gives_its_sum(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    params = {
        GUEST: {"seed": 123, "partition": 4, "data_num": 1000},
        HOST: {"partition": 4, "data_num": 1000},
    }
    outputs = outputs_of(run(tmp_path, params))
    assert outputs[GUEST].summary == {"secure_sum": 2000.0}
    assert outputs[HOST].summary == {}
    told = [r.getMessage() for r in caplog.records if "secure_add_guest" in r.getMessage()]
    assert told[-1].endswith("success to calculate secure_sum, it is 2000.0")


def test_what_the_host_gets_is_spread_over_all_numbers(tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    count = 4096
    host = federation.at(HOST)
    host.send("host_share", np.zeros(count, dtype=np.uint64), to=GUEST)
    host.send("host_sum", np.array([0], dtype=np.uint64), to=GUEST)
    run_component(
        SecureAddExample,
        sites=(GUEST, HOST),
        work_dir=tmp_path,
        params={GUEST: {"data_num": count}},
        federation=federation,
        only=(GUEST,),
    )
    sent = host.recv("guest_share", from_=GUEST)
    assert len(np.unique(sent)) == count
    assert 0.4 < float(np.mean(sent >> np.uint64(63))) < 0.6


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({GUEST: {"data_num": 10}, HOST: {"data_num": 11}}, BadParameter),
        ({GUEST: {}, HOST: {}, HOST_2: {}}, BadParameter),
        ({GUEST: {"data_num": 0}, HOST: {"data_num": 0}}, BadParameter),
    ],
)
def test_parties_that_do_not_fit_are_told_why(
    tmp_path: Path, params: Mapping[Site, Mapping[str, Any]], kind: type[FedflowError]
) -> None:
    with pytest.raises(kind):
        outputs_of(run(tmp_path, params))


def test_a_message_of_another_kind_is_refused(tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    federation.at(HOST).send("host_share", ["1"], to=GUEST)
    results = run_component(
        SecureAddExample,
        sites=(GUEST, HOST),
        work_dir=tmp_path,
        federation=federation,
        only=(GUEST,),
    )
    assert isinstance(results[GUEST].error, CodecError)
