"""What serving processes tell each other: what is taken for a response, and what is not."""

from __future__ import annotations

import msgspec
import pytest

from fedflow.serving.metrics import LabelledCounts, LabelledHistogram
from fedflow.serving.partners.messages import (
    PartnerRequest,
    PartnerResponse,
    pack_message,
    read_partner_request,
    read_partner_response,
)

REQUEST = PartnerRequest(
    guest="9999", host="10000", model_id="m", model_version="v", digest="d", request_ids=["r"],
    ids=[{"device_id": "u1"}, {"device_id": 8}],
)  # fmt: skip


def test_messages_are_read_as_they_were_written() -> None:
    assert read_partner_request(pack_message(REQUEST)) == REQUEST
    response = PartnerResponse(partial=b"\x00", errors={1: (113, "none")})
    assert read_partner_response(pack_message(response), 2) == response


@pytest.mark.parametrize(
    "response",
    [
        PartnerResponse(retcode=7),
        PartnerResponse(retcode=2104),
        PartnerResponse(),
        PartnerResponse(errors={0: (113, "")}),
        PartnerResponse(partial=b"x", errors={2: (113, "")}),
        PartnerResponse(partial=b"x", errors={-1: (113, "")}),
        PartnerResponse(partial=b"x", errors={0: (0, "")}),
    ],
)
def test_a_response_that_cannot_be_one_is_refused(response: PartnerResponse) -> None:
    with pytest.raises(ValueError):
        read_partner_response(pack_message(response), 2)


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x80", pack_message(REQUEST)[:-1], b"\x91" * 9999])
def test_rubbish_is_no_message(raw: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        read_partner_request(raw)


def test_metrics_are_in_the_form_of_prometheus() -> None:
    counts = LabelledCounts("n_total", "Some.", ("service",))
    counts.add('a"\n\\')
    counts.add('a"\n\\', number=2)
    assert list(counts.lines())[-1] == 'n_total{service="a\\"\\n\\\\"} 3'
    times = LabelledHistogram("t", "Times.", ("party",), (0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        times.observe(value, "1")
    assert list(times.lines())[2:] == [
        't_bucket{party="1",le="0.1"} 2',
        't_bucket{party="1",le="1"} 3',
        't_bucket{party="1",le="+Inf"} 4',
        't_sum{party="1"} 7.65',
        't_count{party="1"} 4',
    ]
