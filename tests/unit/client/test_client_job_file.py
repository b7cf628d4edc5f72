"""A job in one file: what YAML means, and what is refused with line and column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedflow.base.errors.requests import BadDocument
from fedflow.client.job_file import parse_job_file, read_job_file
from fedflow.client.yaml_text import parse_yaml

EXAMPLES = Path(__file__).parents[3] / "examples"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def refusal(parse, text):
    with pytest.raises(BadDocument) as caught:
        parse(text, "job.yaml")
    return str(caught.value.message)


@pytest.mark.parametrize("name", ["hetero_lr", "homo_lr"])
def test_the_example_is_the_job_of_the_two_json_files(name):
    job = read_job_file(EXAMPLES / name / "job.yaml")
    assert job.dsl == json.loads((EXAMPLES / name / "dsl.json").read_text())
    assert job.conf == json.loads((EXAMPLES / name / "conf.json").read_text())


def test_json_with_both_members_is_a_job_too():
    job = parse_job_file('{"dsl": {"components": {}}, "conf": {"dsl_version": 2}}', "x")
    assert (job.dsl, job.conf) == ({"components": {}}, {"dsl_version": 2})
    assert "line 1, column 9" in refusal(parse_job_file, '{"dsl": }')


def test_a_predict_job_needs_no_dsl():
    text = "conf: {job_parameters: {common: {job_type: predict}}}"
    assert parse_job_file(text, "x").dsl == {}
    assert parse_job_file("conf: {job_parameters: {job_type: predict}}", "x").dsl == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1e-4", 1e-4), ("a: -3", -3), ("a: 010", 10), ("a: .5", 0.5), ("a: true", True),
        ("a: no", "no"), ("a: on", "on"), ("a: 2026-01-01", "2026-01-01"), ("a: 1:30", "1:30"),
        ("a: ~", None), ("a:", None), ("a: '5'", "5"), ("a: !!str 5", "5"), ("a: .inf", ".inf"),
        ("a: &b [1]\nc: *b", [1]),
    ],
)  # fmt: skip
def test_a_value_means_what_the_same_word_means_in_json(text, value):
    found = parse_yaml(text, "x")["a"]
    assert (found, type(found)) == (value, type(value))


def test_a_key_that_is_a_number_is_a_text():
    assert parse_yaml("host: {0: a, 10000: b}", "x") == {"host": {"0": "a", "10000": "b"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a mapping with `dsl` and `conf`, not nothing"),
        ("- dsl\n- conf", "must be a mapping with `dsl` and `conf`, not a list"),
        ("just a text", "not 'just a text'"),
        ("dsl: {}", "the member `conf` is missing"),
        ("conf: {}", "the member `dsl` is missing; only a predict job needs none"),
        ("dsl: []\nconf: {}", "`dsl` must be a mapping, not a list"),
        ("dsl: {}\nconf:", "`conf` must be a mapping, not nothing"),
        ("dsl: {}\nconf: {}\nroles: {}", "unknown member 'roles'"),
    ],
)
def test_a_file_that_is_no_job_says_what_is_missing(text, said):
    assert said in refusal(parse_job_file, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dsl:\n  a: 1\n b: 2", "job.yaml, line 3, column 2"),
        ("a: 1\nb: [1, 2", "line 2, column 9"),
        ("a: 1\n\tb: 2", "line 2, column 1"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the member 'a' occurs twice"),
        ("a: *nobody", "line 1, column 4"),
        ("a: 1\n---\nb: 2", "line 2, column 1"),
        ("{true: 1}", "a key must be a text"),
        ("? [a]\n: 1", "a key must be a text"),
        ("a: {<<: {b: 1}}", "merge keys (<<) are not read"),
        ("a: !!python/object/apply:os.system [ls]", "is not read here"),
        ("a: !!bool yes", "is no value that JSON has"),
        (f"a: {1 << 63}", "is no value that JSON has"),
        ("a: !!binary aGk=", "is no value that JSON has"),
        ("a: 1e999", "'1e999' is no value that JSON has"),
        (f"a: {'9' * 5000}", "is no value that JSON has"),
        ("a: \x07", "special characters are not allowed"),
        (BOMB, "there are more than 200000 values, with those of aliases"),
        ("a: &a [*a]", "nested deeper than 100 levels"),
        ("[" * 5000, "nested too deep"),
        ("a: " + "x" * (1 << 20), "longer than 1048576 characters"),
    ],
)
def test_what_is_no_json_value_is_refused_with_its_place(text, said):
    assert said in refusal(parse_yaml, text)
