"""Flower projects of a site: which are found, what their pyproject.toml must say, their config."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.flower import project as projects
from fedflow.flower.project import flat, installed_version, read_project

PYPROJECT = """
[project]
name = "my-app"
version = "2.0"

[tool.flwr.app.components]
serverapp = "my_app.server_app:app"
clientapp = "my_app.client_app:app"

[tool.flwr.app.config]
rounds = 3
rate = 0.5
name = "x"
on = true
model.depth = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of projects with one, `mine`."""
    write(tmp_path / "apps" / "mine", PYPROJECT)
    return tmp_path / "apps"


def write(path: Path, text: str) -> None:
    path.mkdir(parents=True)
    (path / "pyproject.toml").write_text(text, encoding="utf-8")


def test_a_project_says_its_apps_and_its_config(folder: Path) -> None:
    found = read_project(folder, "mine")
    assert (found.name, found.version) == ("my-app", "2.0")
    assert (found.serverapp, found.clientapp) == ("my_app.server_app:app", "my_app.client_app:app")
    config = {"rounds": 3, "rate": 0.5, "name": "x", "on": True, "model.depth": 2}
    assert found.config == config
    assert found.run_config({}) == config


def test_given_config_replaces_values_nested_or_with_dots(folder: Path) -> None:
    found = read_project(folder, "mine")
    assert found.run_config({"model": {"depth": 5}})["model.depth"] == 5
    assert found.run_config({"model.depth": 5})["model.depth"] == 5
    assert found.run_config({"rate": 1})["rate"] == 1.0


@pytest.mark.parametrize(
    ("given_config", "said"),
    [
        ({"round": 3}, "'round' is not in .*known are model.depth, name, on, rate, rounds"),
        ({"rounds": "3"}, "'rounds' is a int in .*, not a str"),
        ({"rounds": True}, "'rounds' is a int in .*, not a bool"),
        ({"name": [1]}, "'name' is a list"),
        ({"name": None}, "'name' is a NoneType"),
    ],
)
def test_config_that_the_project_has_not_is_refused(
    folder: Path, given_config: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        read_project(folder, "mine").run_config(given_config)


@pytest.mark.parametrize(
    "name", ["..", "../apps/mine", "/etc", "mine/..", "mine/../../x", ".", "", "mine//x", "a b"]
)
def test_a_name_that_leads_elsewhere_is_no_project(folder: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no name of a folder"):
        read_project(folder, name)


@given(st.text(max_size=30))
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    root = Path(__file__).resolve().parent
    try:
        found = read_project(root, name)
    except ValueError:
        return
    assert found.folder.is_relative_to(root)


def test_a_link_to_elsewhere_is_no_project(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", PYPROJECT)
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="there is no folder 'linked'"):
        read_project(folder, "linked")


def test_a_project_that_every_user_may_change_is_refused(folder: Path) -> None:
    (folder / "mine").chmod(0o777)
    with pytest.raises(ValueError, match="every user may write"):
        read_project(folder, "mine")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'tool' is missing"),
        ("[tool.flwr.app]", "'components' is missing"),
        ("tool = 3", "cannot be used"),
        ("not toml", "cannot be used"),
        (PYPROJECT.replace("my_app.client_app:app", "os.system('x')"), "`module:attribute`"),
        (PYPROJECT + "list = [1]", "'list' is a list"),
        ("#" * 300_000, "longer than"),
    ],
)
def test_a_pyproject_of_something_else_is_refused(folder: Path, text: str, said: str) -> None:
    write(folder / "other", text)
    with pytest.raises(ValueError, match=said):
        read_project(folder, "other")


def test_a_folder_without_a_pyproject_is_refused(folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(ValueError, match=r"'empty' holds no pyproject\.toml"):
        read_project(folder, "empty")


def test_keys_are_joined_by_dots() -> None:
    assert list(flat({"a": {"b": {"c": 1}}, "d": 2})) == [("a.b.c", 1), ("d", 2)]


def test_endless_nesting_is_refused() -> None:
    nested: dict[str, object] = {}
    nested["a"] = nested
    with pytest.raises(ValueError, match="nested deeper"):
        list(flat(nested))


@pytest.mark.parametrize("found", ["1.37.9", "1.43.0", "2.0", "0.1.dev"])
def test_a_flwr_that_was_not_tested_is_refused(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(projects, "version", lambda _: found)
    with pytest.raises(
        ValueError, match=rf"flwr {found} is installed in .*; tested is 1\.38 to 1\.42"
    ):
        installed_version()


def test_an_interpreter_without_flwr_says_so() -> None:
    with pytest.raises(ValueError, match="flwr is not installed"):
        installed_version()
