"""Nothing in fedflow turns data into code, and nothing is handed to a shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedflow

PACKAGE = Path(fedflow.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

MODULES = frozenset(
    (
        "pickle",
        "_pickle",
        "cPickle",
        "cloudpickle",
        "dill",
        "joblib",
        "jsonpickle",
        "marshal",
        "shelve",
    )
)
"""Reading what these wrote runs what it says."""

NAMES = frozenset(["eval", "exec", "compile", "__import__", "breakpoint"])
"""Builtins that run text."""

CALLS = frozenset(
    (
        "os.system",
        "os.popen",
        "pty.spawn",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "asyncio.create_subprocess_shell",
        "pandas.read_pickle",
        "pd.read_pickle",
        "yaml.full_load",
        "yaml.full_load_all",
        "yaml.unsafe_load",
        "yaml.unsafe_load_all",
    )
)
LOADS = frozenset(["yaml.load", "yaml.load_all"])
SAFE_LOADERS = frozenset(
    f"{module}{kind}Loader" for module in ("", "yaml.") for kind in ("Safe", "CSafe", "Base")
)
OFF = frozenset(["shell", "allow_pickle"])
"""Arguments that must be False, said so in the source, wherever they appear."""

IMPORTERS = {
    "board/blueprints.py": "the modules of its own package",
    "cli/main.py": "the modules of its own package that say they are a command",
    "spark/python_check.py": "a fixed list of libraries",
    "components/registry.py": "the shipped components and installed entry points",
    "flower/project.py": "a Flower project below the folder that this site's provider names",
    "serving/scoring/registry.py": "the tables of the same module",
    "testing/trial.py": "what the person who tries a component out names on the command line",
    "worker/zygote.py": "the modules that its own server names on the command line",
}
"""Modules that import by a computed name, and where their names come from."""

_CLUSTER = "work for this party's own Spark workers, and what they made of it"
PICKLERS = {
    "cores/forked.py": "errors of forks of the same process",
    "spark/workers.py": _CLUSTER,
    "spark/tables/hive.py": _CLUSTER,
    "spark/tables/jobs.py": _CLUSTER,
    "spark/tables/table.py": _CLUSTER,
    "spark/tables/gather.py": _CLUSTER,
    "testing/pickling.py": "functions of a test, read back in the same process",
}
"""Modules that pickle, and what: nothing that another party, a client or a stored file says."""


def findings(text: str, *, may_import: bool = False, may_pickle: bool = False) -> list[str]:
    """Return what is not allowed in a module's source, each with its line."""
    found = [
        (getattr(node, "lineno", 0), what)
        for node in ast.walk(ast.parse(text))
        for what in (
            *(() if may_pickle else _imports(node)),
            *_calls(node),
            *(() if may_import else _loads(node)),
        )
    ]
    return [f"line {line}: {what}" for line, what in sorted(found)]


def _imports(node: ast.AST) -> Iterator[str]:
    modules: list[str] = []
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
        modules = [node.module]
        yield from (
            f"imports {full}"
            for full in (f"{node.module}.{alias.name}" for alias in node.names)
            if full in CALLS | LOADS
        )
    yield from (f"imports {name}" for name in modules if name.partition(".")[0] in MODULES)


def _calls(node: ast.AST) -> Iterator[str]:
    name = _dotted(node)
    if name in NAMES or name in CALLS:
        yield f"uses {name}"
    if not isinstance(node, ast.Call):
        return
    called = _dotted(node.func)
    if called in LOADS:
        loaders = [k.value for k in node.keywords if k.arg == "Loader"] or node.args[1:2]
        if [_dotted(loader) in SAFE_LOADERS for loader in loaders] != [True]:
            yield f"calls {called} without a safe loader"
    for keyword in node.keywords:
        value = keyword.value
        is_off = isinstance(value, ast.Constant) and value.value is False
        if keyword.arg in OFF and not is_off:
            yield f"passes {keyword.arg}={ast.unparse(value)}"


def _loads(node: ast.AST) -> Iterator[str]:
    called = _dotted(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and called in ("importlib.import_module", "import_module"):
        name = node.args[0] if node.args else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            yield f"calls {called} with a computed name"


def _dotted(node: ast.AST) -> str:
    """Return a name like `os.system`; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_runs_data_or_a_shell(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    text = path.read_text(encoding="utf-8")
    assert findings(text, may_import=name in IMPORTERS, may_pickle=name in PICKLERS) == []


def test_the_whole_package_was_looked_at() -> None:
    names = {path.relative_to(PACKAGE).parts[0] for path in SOURCES}
    assert {"base", "components", "federation", "rpc", "server", "web", "worker"} <= names


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import os, marshal as m",
        "from dill import loads",
        "from joblib.numpy_pickle import load",
        "eval('1')",
        "run = exec",
        "__import__(name)",
        "os.system('ls')",
        "from os import system",
        "subprocess.run('ls', shell=True)",
        "subprocess.run('ls', shell=wanted)",
        "import yaml\nyaml.load(text)",
        "yaml.load(text, yaml.Loader)",
        "yaml.load(text, Loader=yaml.FullLoader)",
        "yaml.unsafe_load(text)",
        "np.load(path, allow_pickle=True)",
        "importlib.import_module(f'fedflow.{name}')",
    ],
)
def test_what_is_not_allowed_is_found(text: str) -> None:
    assert len(findings(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "yaml.safe_load(text)",
        "yaml.load(text, Loader=yaml.CSafeLoader)",
        "np.load(path, allow_pickle=False)",
        "subprocess.run(['ls'], shell=False)",
        "re.compile('x')",
        "self.eval()",
        "importlib.import_module('fedflow.components')",
    ],
)
def test_what_is_allowed_is_not_found(text: str) -> None:
    assert findings(text) == []
