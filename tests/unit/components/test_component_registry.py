"""Which components are there, and what is said of them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fedflow.base.errors.components import UnknownComponent
from fedflow.components.registry import GROUP, ComponentRegistry, describe, load_registry
from fedflow.domain.site import Role


@pytest.fixture(scope="module")
def registry() -> ComponentRegistry:
    return load_registry(found=[])


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def test_the_built_in_components_load_without_a_problem(registry: ComponentRegistry) -> None:
    assert registry.problems == ()
    assert {s.module for s in registry.specs} == {
        "Reader",
        "Upload",
        "Writer",
        "Download",
        "ColumnExpand",
        "DataTransform",
        "Intersection",
        "HeteroFeatureBinning",
        "HomoFeatureBinning",
        "OneHotEncoder",
        "HomoOneHotEncoder",
        "HomoNN",
        "FeldmanVerifiableSum",
        "PSI",
        "DataStatistics",
        "HeteroPearson",
        "HeteroFeatureSelection",
        "HeteroLR",
        "HeteroLinR",
        "HeteroPoisson",
        "HomoLR",
        "HeteroSSHELR",
        "HeteroSSHELinR",
        "Evaluation",
        "Empty",
        "SecureAddExample",
        "CacheLoader",
        "ModelRestore",
        "ModelStore",
        "ModelLoader",
        "FeatureScale",
        "FeatureImputation",
        "LabelTransform",
        "Union",
        "SampleWeight",
        "FederatedSample",
        "HeteroDataSplit",
        "HomoDataSplit",
        "HeteroSecureBoost",
        "HeteroFastSecureBoost",
        "SBTFeatureTransformer",
        "HeteroKmeans",
        "LocalBaseline",
        "PositiveUnlabeled",
        "Scorecard",
        "SecureInformationRetrieval",
        "DataIO",
    }


def test_a_built_in_component_has_the_name_under_which_it_is_listed(
    registry: ComponentRegistry,
) -> None:
    names = [name.lower() for s in registry.specs for name in (s.module, *s.aliases)]
    assert names == list(registry.offers)


def test_modules_are_found_in_any_case(registry: ComponentRegistry) -> None:
    assert registry.find("heteroLR") is registry.find("HETEROLR")
    assert Role.ARBITER in registry.find("heterolr").roles
    with pytest.raises(UnknownComponent, match="'os'"):
        registry.find("os")


def test_every_description_is_plain_json_with_the_parameters_schema(
    registry: ComponentRegistry,
) -> None:
    for spec in registry.specs:
        described = json.loads(json.dumps(describe(spec)))
        assert described["module"] == spec.module
        assert described["summary"]
        assert described["parameters"] is not None
        assert described["param_name"].endswith("Param")
        assert set(described["defaults"]) <= set(spec.params.__struct_fields__)


def test_other_packages_add_components_by_an_entry_point() -> None:
    found = [point("faults", "fedflow.testing.faults:COMPONENTS")]
    registry = load_registry(found=found)
    assert registry.problems == ()
    assert registry.find("wellbehaved").module == "WellBehaved"
    assert registry.packages["WellBehaved"] == "faults@"
    assert {d["module"]: d["package"] for d in registry.described()}["Reader"] == ""
    one = load_registry(found=[point("one", "fedflow.testing.faults:Sleeps")])
    assert one.find("Sleeps").module == "Sleeps"


@pytest.mark.parametrize(
    "value",
    ["no.such.package:X", "fedflow.testing.faults:MISSING", "json:dumps", "json:JSONDecoder"],
)
def test_a_provider_that_cannot_be_loaded_hides_no_other(value: str) -> None:
    registry = load_registry(found=[point("bad", value)])
    assert len(registry.problems) == 1
    assert "provider bad" in registry.problems[0]
    assert registry.find("Reader").module == "Reader"


def test_a_provider_that_exits_on_import_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "exits_on_import.py").write_text("raise SystemExit(3)", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    registry = load_registry(found=[point("bad", "exits_on_import:X")])
    assert len(registry.problems) == 1
    assert registry.find("Reader").module == "Reader"


def test_a_name_that_is_taken_stays_with_the_first() -> None:
    value = "fedflow.components.builtin:COMPONENTS"
    again = load_registry(found=[point("builtin", value)])
    assert again.problems == ()
    twice = load_registry(
        found=[
            point("a", "fedflow.testing.faults:Sleeps"),
            point("b", "fedflow.testing.faults:Sleeps"),
        ]
    )
    assert twice.problems == ()
    assert sum(s.module == "Sleeps" for s in twice.specs) == 1


def test_what_a_zygote_imports_has_no_server_library_and_no_thread_of_its_own() -> None:
    code = (
        "import json, os, sys, fedflow.worker.run, fedflow.worker.zygote\n"
        "from fedflow.components.registry import load_registry\n"
        "load_registry()\n"
        "heavy = {'grpc', 'flask', 'peewee', 'sklearn', 'pandas', 'scipy', 'asyncio', 'pymysql',\n"
        "         'pyspark', 'pyarrow.fs', 'pyarrow.parquet'}\n"
        "others = [open(f'/proc/self/task/{t}/comm').read().strip()\n"
        "          for t in os.listdir('/proc/self/task') if int(t) != os.getpid()]\n"
        "own = [m for m in sys.modules if m.startswith('fedflow.components.')]\n"
        "print(json.dumps([sorted(heavy & set(sys.modules)), others, own]))\n"
    )
    env = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    loaded, threads, components = json.loads(done.stdout)
    assert loaded == []
    assert components == ["fedflow.components.registry", "fedflow.components.builtin"]
    assert set(threads) <= {"jemalloc_bg_thd"}  # Arrow's allocator; nothing turns it off
