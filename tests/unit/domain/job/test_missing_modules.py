"""What is said of a module that is not there: not yet, or perhaps another one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from fedflow.base.errors.components import ModuleNotYet, UnknownComponent
from fedflow.components.registry import load_registry
from fedflow.domain.job.missing_modules import MISSING, refusal, unknown_component

ROOT = Path(__file__).parents[4]
NAMES = load_registry(found=[]).names


def test_a_module_that_is_listed_as_missing_is_missing() -> None:
    listed = [name.lower() for one in MISSING for name in (one.module, *one.aliases)]
    assert [name for name in listed if name in NAMES] == []
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize(
    ("module", "rule", "sentence"),
    [
        ("HOMOsecureboost", "ModuleNotYet", "HomoSecureBoost is not in fedflow yet (planned)"),
        (
            "HeteroFTL", "ModuleNotYet",
            "FTL is not in fedflow (not planned); meanwhile: a component of one's own",
        ),
        ("Evalution", "ModuleNotFound", 'there is no module "Evalution"; did you mean Evaluation?'),
        (
            "heteropearsn", "ModuleNotFound",
            'there is no module "heteropearsn"; did you mean HeteroPearson?',
        ),
        (
            "HomoSecureBost", "ModuleNotFound",
            'there is no module "HomoSecureBost"; did you mean HomoSecureBoost?',
        ),
        (
            "Zzz", "ModuleNotFound",
            'there is no module "Zzz"; `fedflow component list` shows the modules',
        ),
    ],
)  # fmt: skip
def test_a_submit_says_which_it_is(module: str, rule: str, sentence: str) -> None:
    assert refusal(module, NAMES) == (rule, sentence)


def test_the_best_of_at_most_three_names_comes_first() -> None:
    _, sentence = refusal("HeteroLRR", NAMES)
    assert sentence.endswith("did you mean HeteroLR, HeteroLinR?")
    assert refusal("x" * 100_000, NAMES)[0] == "ModuleNotFound"


def test_other_questions_get_the_same_as_errors() -> None:
    error = unknown_component("homosecureboost", NAMES)
    assert isinstance(error, ModuleNotYet)
    assert error.message == "HomoSecureBoost of FATE is not in fedflow yet (planned)."
    typo = unknown_component("HeteroPearsn", NAMES)
    assert isinstance(typo, UnknownComponent)
    assert typo.message == "No component module 'HeteroPearsn'. Did you mean HeteroPearson?"
    assert unknown_component("os", NAMES).message == "No component module 'os'."


@pytest.mark.parametrize("name", ["README.md", "docs/features.md"])
def test_the_pages_list_what_is_missing(name: str) -> None:
    page = runpy.run_path(str(ROOT / "bin" / "print-missing"))["page"](name)
    assert (ROOT / name).read_text(encoding="utf-8") == page, "run bin/print-missing"
