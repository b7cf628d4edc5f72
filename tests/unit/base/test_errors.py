"""The catalogue of errors: numbers, hints, messages, and the page that is printed of it."""

from __future__ import annotations

import copy
import pickle
import re
import runpy
import string
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedflow.base.errors import catalog
from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.error import FedflowError
from fedflow.base.settings import Settings

ROOT = Path(__file__).parents[3]
KINDS = sorted(all_errors(), key=lambda kind: kind.code)
SAMPLE = Problem(path="$.dsl", message="must be an object", rule="DSLTypeError")


def make(kind: type[FedflowError]) -> FedflowError:
    """Return an error with something in each of its fields."""
    if issubclass(kind, InvalidJobSpec):
        return kind([SAMPLE])
    return kind(**dict.fromkeys(fields_of(kind), 7))


def fields_of(kind: type[FedflowError]) -> list[str]:
    """Return the placeholders of the message."""
    return [name for _, name, _, _ in string.Formatter().parse(first_line(kind)) if name]


def first_line(kind: type[FedflowError]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def areas() -> list[tuple[int, str, str]]:
    """Return block, area and source of every module of an area, in order."""
    found = []
    for path in Path(catalog.__file__).parent.glob("*.py"):
        source = path.read_text(encoding="utf-8")
        if heading := re.match(r'"""Errors (\d+): (.+)\."""', source):
            found.append((int(heading[1]), heading[2], source))
    return sorted(found)


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert FedflowError.code not in codes


def test_every_code_is_in_the_block_under_whose_heading_the_class_stands() -> None:
    found: dict[str, int] = {}
    for block, _, source in areas():
        declared = re.findall(
            r"^class (\w+)\((?:FedflowError|InvalidJobSpec|PartiesNotReady|BadSetting"
            r"|HomeNotUsable|PortInUse|CodecError|PartyUnreachable|StoreUnavailable)\)",
            source,
            re.MULTILINE,
        )
        found.update(dict.fromkeys(declared, block))
    assert set(found) == {kind.__name__ for kind in KINDS}
    for kind in KINDS:
        assert found[kind.__name__] < kind.code < found[kind.__name__] + 100, kind.__name__


def test_the_list_of_blocks_is_that_of_the_headings() -> None:
    headings = [(str(block), area) for block, area, _ in areas()]
    listed = re.findall(r"^\| (\d+) \| (.+) \|$", catalog.__doc__ or "", re.MULTILINE)
    assert headings == listed


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
class TestEachError:
    def test_it_says_what_to_do_next(self, kind: type[FedflowError]) -> None:
        assert "hint" in vars(kind), "an inherited hint says nothing"
        assert kind.hint.strip() == kind.hint != ""
        assert kind.hint.endswith((".", "'"))

    def test_it_has_return_codes_of_its_own(self, kind: type[FedflowError]) -> None:
        assert {"code", "retcode", "http"} <= vars(kind).keys()
        assert kind.retcode > 0  # 0 is success
        assert 200 < kind.http < 600

    def test_its_message_is_one_filled_line(self, kind: type[FedflowError]) -> None:
        error = make(kind)
        assert error.message
        assert "{" not in error.message
        assert "\n" not in error.message
        assert str(error).startswith(error.message)
        assert f"[{kind.code}]" in str(error)
        assert error.name == kind.__name__

    def test_a_missing_field_is_noticed_at_once(self, kind: type[FedflowError]) -> None:
        if fields_of(kind) and not issubclass(kind, InvalidJobSpec):
            with pytest.raises(KeyError):
                kind()

    def test_it_survives_pickling_and_copying(self, kind: type[FedflowError]) -> None:
        error = make(kind)
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(again) is kind
            assert again.message == error.message
            assert again.fields == error.fields


def test_the_problems_of_an_invalid_job_survive_pickling() -> None:
    again = pickle.loads(pickle.dumps(InvalidJobSpec([SAMPLE, SAMPLE])))
    assert again.problems == (SAMPLE, SAMPLE)
    assert str(SAMPLE) in again.message


def test_hints_name_only_settings_that_exist() -> None:
    named = {
        word
        for kind in KINDS
        for word in re.findall(r"\b[a-z_]+(?:\.[a-z_]+)+\b", kind.hint)
        if word.split(".")[0] in Settings.__struct_fields__
    }
    assert named
    for path in named:
        kind: Any = Settings
        for key in path.split("."):
            types = {f.name: f.type for f in msgspec.structs.fields(kind)}
            assert key in types, f"a hint names {path}, which is no setting"
            kind = types[key]


def test_hints_name_no_file_of_a_checkout() -> None:
    for kind in KINDS:
        hint = kind.hint.replace("share/fedflow/", "")
        assert not re.search(r"docs/|conf/service_conf|\.md\b", hint), hint


def test_the_page_of_errors_is_printed_from_these_classes() -> None:
    page = runpy.run_path(str(ROOT / "bin" / "print-errors"))["page"]()
    written = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert written == page, "run bin/print-errors > docs/errors.md"
    for kind in KINDS:
        assert page.count(f"| {kind.code} | `{kind.__name__}` |") == 1
