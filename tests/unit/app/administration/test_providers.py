"""Components and providers as FATE's clients read them."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow import __version__
from fedflow.app.administration.providers import Providers
from fedflow.base.errors import BadRequest, NotSupportedYet


class Describer:
    def describe(self) -> list[dict[str, Any]]:
        return [
            {"module": "Reader", "aliases": []},
            {"module": "HeteroLR", "aliases": ["HeteroLogistic"]},
            {"module": "Evaluation", "aliases": []},
        ]


@pytest.fixture
def providers() -> Providers:
    return Providers(Describer())


def test_a_module_belongs_to_the_provider_that_fate_has_it_in(providers: Providers) -> None:
    found = providers.components()
    assert {name: one["default_provider"] for name, one in found.items()} == {
        "reader": "fate_flow", "heterolr": "fate", "evaluation": "fate",
    }  # fmt: skip
    assert providers.component("HETEROLOGISTIC") == {
        "default_provider": "fate", "support_provider": ["fate"],
        "alias": ["HeteroLR", "HeteroLogistic"],
    }  # fmt: skip
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


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("fate", "1.0", "/srv/federatedml"), NotSupportedYet),
        (("other", "1.0", "/srv"), BadRequest),
        (("fate", "", "/srv"), BadRequest),
        (("fate", "1.0", "srv"), BadRequest),
    ],
)
def test_a_provider_of_its_own_is_never_registered(
    providers: Providers, arguments: tuple[str, str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        providers.register(*arguments)
