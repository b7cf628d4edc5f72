"""Components and providers as FATE's clients read them, and providers that are registered."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow import __version__
from fedflow.app.administration.modules import Modules
from fedflow.app.administration.providers import Providers
from fedflow.base.errors.components import ProviderRefused, UnknownComponent
from fedflow.base.errors.requests import BadRequest
from fedflow.wire.api.administration import ProvidedModule
from tests.support.providers import MemoryProviders
from tests.unit.app.fakes import FakeClock


def described(module: str, *aliases: str) -> dict[str, Any]:
    return {
        "module": module, "aliases": list(aliases), "roles": ["guest"], "data_ports": ["data"],
        "needs_input": False, "outputs": ["data"], "param_name": "P", "defaults": {},
        "checks_run": False,
    }  # fmt: skip


class BuiltIn:
    def describe(self) -> list[dict[str, Any]]:
        return [
            described("Reader"), described("HeteroLR", "HeteroLogistic"), described("Evaluation"),
        ]  # fmt: skip

    def check(self, module: str, parameters: Any, **_: Any) -> tuple[()]:
        """Everything is good."""
        return ()


@pytest.fixture
def memory() -> MemoryProviders:
    return MemoryProviders()


@pytest.fixture
def modules(memory: MemoryProviders) -> Modules:
    return Modules(BuiltIn(), book=memory, host=memory)


@pytest.fixture
def providers(modules: Modules, memory: MemoryProviders) -> Providers:
    return Providers(modules, folders=memory, book=memory, host=memory, clock=FakeClock())


def test_a_module_belongs_to_the_provider_that_fate_has_it_in(providers: Providers) -> None:
    found = providers.components()
    assert {name: one.default_provider for name, one in found.items()} == {
        "reader": "fate_flow", "heterolr": "fate", "evaluation": "fate",
    }  # fmt: skip
    assert providers.component("HETEROLOGISTIC") == ProvidedModule(
        default_provider="fate", support_provider=("fate",), alias=("HeteroLR", "HeteroLogistic")
    )
    assert providers.component("nope") is None


def test_a_provider_has_one_version_with_lower_case_components(providers: Providers) -> None:
    found = providers.providers()
    assert list(found) == ["fate", "fate_flow"]
    assert found["fate"]["default"] == {"version": __version__}
    assert found["fate"][__version__]["components"] == ["evaluation", "heterolr"]


def test_the_registry_lists_aliases_too(providers: Providers) -> None:
    found = providers.registry()
    assert set(found["components"]) == {"reader", "heterolr", "heterologistic", "evaluation"}
    content = found["providers"]["fate_flow"][__version__]["components"]
    assert content == {"reader": {"module": "reader"}}


def test_what_is_registered_is_known_at_once_and_what_is_deleted_no_more(
    providers: Providers, modules: Modules, memory: MemoryProviders
) -> None:
    path = memory.offer("lab", "1.0", described("Mean"))
    assert "mean" not in modules.modules()
    assert providers.register(path)["components"] == ["mean"]
    assert modules.modules()["mean"].provider == "lab"
    assert providers.component("mean") == ProvidedModule(
        default_provider="lab", support_provider=("lab",), alias=("Mean",)
    )
    assert providers.providers()["lab"]["1.0"]["path"] == path
    assert providers.registry()["providers"]["lab"]["1.0"]["components"] == {
        "mean": {"module": "mean"}
    }
    providers.delete("lab", "1.0")
    assert "mean" not in modules.modules()
    with pytest.raises(UnknownComponent):
        modules.provider_of("mean", None)


def test_a_module_of_an_installed_package_is_of_a_provider_of_its_name(
    memory: MemoryProviders,
) -> None:
    class WithPackage(BuiltIn):
        def describe(self) -> list[dict[str, Any]]:
            return [*super().describe(), {**described("Shuffle"), "package": "cards@2.1"}]

    modules = Modules(WithPackage(), book=memory, host=memory)
    providers = Providers(modules, folders=memory, book=memory, host=memory, clock=FakeClock())
    assert providers.components()["shuffle"].default_provider == "cards"
    found = providers.providers()
    assert found["cards"]["default"] == {"version": "2.1"}
    assert found["cards"]["2.1"]["components"] == ["shuffle"]
    assert "shuffle" not in found["fate"][__version__]["components"]
    (one,) = [one for one in modules.describe() if one["module"] == "Shuffle"]
    assert (one["provider"], "package" in one) == ("cards", False)
    info = modules.modules()["shuffle"]
    assert (info.provider, info.package) == ("", "cards"), "no folder: it runs as fedflow's own do"
    assert modules.provider_of("shuffle", "cards@2.1") is None


def test_another_folder_of_the_same_version_says_what_it_replaces(
    providers: Providers, memory: MemoryProviders
) -> None:
    path = memory.offer("lab", "1.0", described("Mean"))
    added = providers.register(path)
    assert (added["modules"], added["replaced_path"]) == (["Mean"], None)
    assert providers.register(path)["replaced_path"] == path
    other = memory.offer("lab", "1.0", described("Mean"), path="/other")
    again = providers.register(other)
    assert (again["path"], again["replaced_path"]) == (other, path)


def test_the_version_registered_last_is_used_unless_another_is_asked_for(
    providers: Providers, modules: Modules, memory: MemoryProviders
) -> None:
    for version in ("2.0", "1.0"):
        providers.register(memory.offer("lab", version, described("Mean")))
    asked = {None: "1.0", "lab": "1.0", "lab@2.0": "2.0", "fate@2.0": "1.0"}
    for text, version in asked.items():
        manifest = modules.provider_of("MEAN", text)
        assert manifest is not None
        assert manifest.version == version
    assert modules.provider_of("HeteroLR", "lab@2.0") is None
    with pytest.raises(ProviderRefused, match=r"lab@3\.0"):
        modules.provider_of("mean", "lab@3.0")
    assert modules.modules()["mean"].versions == ("2.0", "1.0")


def test_parameters_are_checked_by_the_version_that_runs_and_again_after_a_registration(
    providers: Providers, modules: Modules, memory: MemoryProviders
) -> None:
    path = memory.offer("lab", "1.0", described("Mean"))
    providers.register(path)
    for _ in range(2):
        modules.check("mean", {"x": 1}, path="$", provider="lab@1.0")
    assert memory.checked == [("lab@1.0", "Mean")]
    providers.register(path)
    modules.check("mean", {"x": 1}, path="$", provider="lab@1.0")
    assert len(memory.checked) == 2


def test_names_of_other_providers_cannot_be_taken(
    providers: Providers, memory: MemoryProviders
) -> None:
    with pytest.raises(ProviderRefused, match=r"heterologistic \(fate\)"):
        providers.register(memory.offer("lab", "1.0", described("Mean", "heterologistic")))
    providers.register(memory.offer("lab", "1.0", described("Mean")))
    with pytest.raises(ProviderRefused, match=r"MEAN \(lab\)"):
        providers.register(memory.offer("other", "1.0", described("MEAN")))
    assert set(providers.providers()) == {"fate", "fate_flow", "lab"}


def test_a_request_that_says_another_name_or_version_than_the_folder_is_refused(
    providers: Providers, memory: MemoryProviders
) -> None:
    path = memory.offer("lab", "1.0", described("Mean"))
    for given in ({"name": "fate"}, {"name": "lab", "version": "1.1"}):
        with pytest.raises(ProviderRefused, match="the folder says"):
            providers.register(path, **given)
    assert memory.all() == []
    providers.register(path, name="lab", version="1.0")


def test_only_what_was_registered_can_be_deleted(providers: Providers) -> None:
    for name in ("fate", "lab"):
        with pytest.raises(BadRequest):
            providers.delete(name, __version__)
