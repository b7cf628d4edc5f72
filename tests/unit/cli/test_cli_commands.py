"""All commands together: help, suggestions, completion, the page that lists them."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from fedflow.cli.flow.main import cli as flow
from fedflow.cli.main import _commands, cli

ROOT = Path(__file__).parents[3]


def every_command(group, name):
    context = click.Context(group, info_name=name)
    for word in group.list_commands(context):
        found = group.get_command(context, word)
        if isinstance(found, click.Group):
            yield from every_command(found, f"{name} {word}")
        else:
            yield f"{name} {word}", found


EVERY = {**dict(every_command(cli, "fedflow")), **dict(every_command(flow, "flow"))}


def test_the_page_of_commands_is_current():
    page = runpy.run_path(str(ROOT / "bin" / "print-commands"))["page"]()
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == page, "run bin/print-commands > docs/cli.md"


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_command_and_option_says_what_it_does(name):
    command = EVERY[name]
    assert (command.help or "").strip().endswith((".", ")")), name
    told = ("namespace", "name", "limit", "port", "protocol", "host", "cores", "days")
    kinds = [one for one in command.params if isinstance(one, click.Option)]
    shown = [option for option in kinds if option.name not in told]
    assert all(option.help for option in shown), [o.name for o in shown if not o.help]


@pytest.mark.parametrize("name", sorted(n for n in EVERY if n.startswith("fedflow")))
def test_every_command_shows_its_help(shell, name):
    result = shell(*name.split()[1:], "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert not shell.server.received


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("jbo",), "job"),
        (("job", "submti"), "submit"),
        (("model", "deploi"), "deploy"),
        (("privilege", "query"), "permission"),
        (("model", "get-model-info"), "info"),
        (("table", "tracking-job"), "jobs"),
        (("job", "parameter-update"), "update"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(shell, words, meant):
    result = shell(*words)
    assert result.exit_code == 2
    assert f"Did you mean '{meant}'" in result.stderr


def test_a_word_like_no_command_is_refused_without_a_guess(shell):
    result = shell("xyzzy")
    assert result.exit_code == 2
    assert "No such command 'xyzzy'.\n" in result.stderr


MODEL = ("-m", "m", "-v", "1")
SITE = ("-r", "guest", "-p", "9999")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("model", "export", *MODEL, "-o", "x"), "name the site with `--role` and `--party`"),
        (("model", "export", *MODEL, "-r", "guest", "-o", "x"), "`--party` go together"),
        (("model", "export", *MODEL, "-r", "owner", "-p", "1", "-o", "x"), "'owner' is not one of"),
        (("model", "import", *MODEL, *SITE, "-f", "/no/such.zip"), "does not exist"),
        (("model", "predict", *MODEL), "Missing option '-t'"),
        (("model", "deploy", *MODEL, "--checkpoint", "lr_0"), "is not like hetero_lr_0=3"),
        (("model", "deploy", *MODEL, "-c", "a", "-d", "/no/such.json"), "No such file"),
        (("model", "tag", "-v", "1", "--remove"), "name the tag to remove"),
        (("model", "migrate", "-c", "/no/such.json"), "No such file"),
        (("model", "log", "-m", "m", "-l", "0"), "is not in the range"),
        (("model", "log", "-m", "m", "-r", "guest"), "`--party` go together"),
        (("model", "show", "-m", "m"), "Missing option '-v'"),
        (("model", "diff", "-m", "m", "1"), "Missing argument 'NEW'"),
        (("model", "commit", *MODEL), "Missing option '--message'"),
        (("model", "branch", "move", "-m", "m", "release"), "Missing option '--to'"),
        (("model", "branch", "creat", "-m", "m"), "Did you mean 'create'"),
        (("model", "rollback", "release"), "Missing option '-m'"),
        (("tag", "update", "a"), "give `--name` or `--description`"),
        (("tag", "list", "-l", "0"), "is not in the range"),
        (("permission", "grant", "-p", "1"), "name a `--component` or a `--table`"),
        (("permission", "revoke", "-p", "1"), "or `--all-tables`"),
        (("checkpoint", "get", *MODEL, *SITE, "-c", "a", "--step", "1", "--step-name", "b"),
         "give either"),
        (("job", "update", "-j", "7"), "give `--conf`, `--notes` or `--name`"),
        (("job", "wait", "-j", "7", "--timeout", "0"), "is not in the range"),
        (("job", "log", "-j", "7", "-f", "--level", "stdout"), "cannot show what"),
        (("job", "dsl", "-d", "/no/such.json", "-c", "a"), "No such file"),
        (("task", "list", "--page", "0"), "is not in the range"),
        (("service", "register-server", "a", "--host", "h", "--port", "70000"), "not in the range"),
        (("test", "toy", "--guest", "1"), "Missing option '--host'"),
        (("completion", "powershell"), "is not one of"),
        (("key", "save", "-p", "1", "-f", "/no/such.pem"), "does not exist"),
        (("version", "--server", "ftp://x"), "is not like http://127.0.0.1:9380"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_sentence_and_sends_nothing(shell, words, said):
    result = shell(*words)
    assert said in result.stderr
    assert result.exit_code == (1 if words[0] == "version" else 2)
    assert result.stdout == ""
    assert not shell.server.received


def test_a_key_without_its_secret_is_refused(shell):
    result = shell("version", env={"FEDFLOW_APP_KEY": "k"})
    assert result.exit_code == 1
    assert "app key and secret go together" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("model", "list"), ("tag", "list"), ("task", "list"), ("queue", "list"),
        ("provider", "list"), ("service", "list"), ("resource", "query"), ("party", "own"),
        ("party", "check", "1"), ("openapi",), ("server", "reload"), ("job", "events", "-j", "7"),
        ("permission", "query", "-p", "1"), ("key", "show", "-p", "1"),
    ],
)  # fmt: skip
def test_without_a_server_every_noun_says_so_and_ends_with_4(shell, words):
    result = shell(*words, reachable=False)
    assert result.exit_code == 4, result.output
    assert "127.0.0.1:1" in result.stderr
    assert "Hint: " in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("tag", "delete", "a"), "/v1/model/tag/destroy"),
        (("model", "branch", "delete", "-m", "m", "a"), "/v1/model/branch/delete"),
        (("key", "delete", "-p", "1"), "/v1/key/public/delete"),
        (("job", "clean", "-j", "7"), "/v1/job/clean"),
        (("queue", "clean"), "/v1/job/clean/queue"),
        (("table", "delete-disabled"), "/v1/table/disable/delete"),
        (("rendezvous", "delete", "r", "--scope", "party:0"), "/v1/rendezvous/remove"),
        (("tracking", "delete-metrics", "-j", "7"), "/v1/tracking/component/metric/delete"),
    ],
)
def test_what_loses_something_asks_first(shell, words, path):
    shell.answer(path, data={"tables": [], "metrics": 0} if path == "/v1/job/clean" else [])
    if path == "/v1/job/clean/queue":
        shell.answer(path, data={})
    if path == "/v1/rendezvous/remove":
        shell.answer(path, data=True)
    if path == "/v1/model/branch/delete":
        shell.answer(path, data={"model_id": "m", "model_version": "1", "detail": {}})
    assert shell(*words, text="n\n").exit_code == 1
    assert not shell.server.received
    assert shell(*words, text="y\n").exit_code == 0
    assert [one.path for one in shell.server.received] == [path]
    assert shell(*words, "--yes").exit_code == 0


def test_both_programs_are_installed():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name, where in scripts.items():
        module, _, function = where.partition(":")
        assert callable(getattr(importlib.import_module(module), function)), name
    assert set(scripts) == {"fedflow", "flow"}


# --- completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("program", ["fedflow", "flow"])
def test_the_completion_script_names_the_program(shell, kind, program):
    script = shell("completion", kind, "--program", program).stdout
    assert f"_{program.upper()}_COMPLETE" in script
    assert len(script) > 100


def test_bash_takes_the_completion_script(shell, tmp_path):
    (tmp_path / "completion.sh").write_text(shell("completion", "bash").stdout)
    done = subprocess.run(
        ["bash", "-c", "source ./completion.sh && complete -p fedflow"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "fedflow" in done.stdout


@pytest.mark.parametrize(
    ("module", "line", "offers"),
    [
        ("fedflow.cli.main", "fedflow jo", "plain,job"),
        ("fedflow.cli.main", "fedflow job sub", "plain,submit"),
        ("fedflow.cli.flow.main", "flow model get-model", "plain,get-model-info"),
    ],
)
def test_words_are_completed(module, line, offers):
    words = line.split()
    program = words[0].upper()
    env = {
        **os.environ, f"_{program}_COMPLETE": "bash_complete", "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", module], env=env, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert offers in done.stdout.splitlines(), done.stderr


def test_the_list_of_commands_is_the_list_of_modules():
    folder = ROOT / "fedflow" / "cli"
    group = re.compile(r"^(?:def command\(|command(?:: .*)? = )", re.MULTILINE)
    found = [path.stem for path in folder.glob("*.py") if group.search(path.read_text("utf-8"))]
    assert sorted(found) == sorted(_commands())
