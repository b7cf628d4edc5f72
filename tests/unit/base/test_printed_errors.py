"""Errors of fedflow that are read from the traceback that another process printed."""

from __future__ import annotations

import traceback

import pytest

from fedflow.base.errors import (
    BadData,
    CodecError,
    ComponentFailed,
    FedflowError,
    InvalidJobSpec,
    Problem,
)
from fedflow.base.printed_errors import printed_error


def printed(error: Exception) -> str:
    try:
        raise error
    except Exception as exc:
        return "".join(traceback.format_exception(exc))


@pytest.mark.parametrize(
    "error",
    [
        CodecError(reason="plain"),
        CodecError(reason="two\nlines [1] and: {braces} fedflow.base.errors.BadData: no"),
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
        "fedflow.base.errors.NoSuchError: x [1] y",
        "fedflow.base.errors.CodecError: another sentence [1603] another hint",
        "  fedflow.base.errors.CodecError: quoted, not raised",
        printed(InvalidJobSpec([Problem("$.a", "wrong", rule="X")])),
    ],
)
def test_other_texts_name_no_error(text: str) -> None:
    assert printed_error(text) is None
