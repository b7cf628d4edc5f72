"""Errors of fedflow that are read from the traceback that another process printed."""

from __future__ import annotations

import traceback

import pytest

from fedflow.base.error_text import printed_error
from fedflow.base.errors.components import ComponentFailed
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.error import FedflowError


def printed(error: Exception) -> str:
    try:
        raise error
    except Exception as exc:
        return "".join(traceback.format_exception(exc))


@pytest.mark.parametrize(
    "error",
    [
        CodecError(reason="plain"),
        CodecError(reason="two\nlines [1] and: {braces} fedflow.base.errors.data.BadData: no"),
        BadData(where="row 3", reason="'ü': no number"),
        ComponentFailed(component="a_0", reason="it returned a list: [1, 2]"),
    ],
)
def test_an_error_is_found_again_as_it_was(error: FedflowError) -> None:
    text = f"Py4JJavaError: An error\n{printed(error)}\n\tat org.apache.spark.Task.run(Task.scala)"
    found = printed_error(text)
    assert type(found) is type(error)
    assert found is not None
    assert found.message == error.message
    assert found.fields == error.fields


def test_the_last_error_of_a_chain_counts() -> None:
    try:
        try:
            raise CodecError(reason="first")
        except CodecError as exc:
            raise BadData(where="here", reason="second") from exc
    except BadData as exc:
        text = "".join(traceback.format_exception(exc))
    found = printed_error(text)
    assert isinstance(found, BadData)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ZeroDivisionError: division by zero",
        "fedflow.base.errors.error.NoSuchError: x [1] y",
        "fedflow.base.errors.data_plane.CodecError: another sentence [1603] another hint",
        "  fedflow.base.errors.data_plane.CodecError: quoted, not raised",
        printed(InvalidJobSpec([Problem("$.a", "wrong", rule="X")])),
    ],
)
def test_other_texts_name_no_error(text: str) -> None:
    assert printed_error(text) is None
