"""fedflow as an index gives it: source archive, wheel, and what runs from it in an empty folder.

The quick tests install the wheel beside the packages of the running environment, so nothing is
downloaded. The heavy ones install it with all it requires, for each Python of this machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import requests

from fedflow.base.libraries import LIBRARIES

pytestmark = pytest.mark.timeout(600)
ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ("conf", "examples", "fedflow", "pyproject.toml", "README.md", "LICENSE", "NOTICE")
BUILD: Final = "import sys, setuptools.build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
SLIM: Final = "share/fedflow/conf/requirements-slim.txt"


@dataclass(frozen=True)
class Installation:
    """An environment with fedflow, and an empty home and working folder for its user."""

    prefix: Path
    cwd: Path
    temporary: Path  #: of few letters, as sockets lie in it

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    def run(self, *words: str, program: str = "fedflow", code: int = 0) -> str:
        """Run a program of the environment and return what it printed; `code`: how it must end."""
        done = subprocess.run(
            [str(self.prefix / "bin" / program), *words],
            cwd=self.cwd, capture_output=True, text=True, timeout=200, check=False,
            env={
                "PATH": os.environ["PATH"], "HOME": str(self.cwd / "home"), "LANG": "C.UTF-8",
                "TMPDIR": str(self.temporary),
            },
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout + (done.stderr if code else "")

    def processes(self) -> list[psutil.Process]:
        """Return what runs from this environment."""
        return [
            p for p in psutil.process_iter(["cmdline"])
            if any(str(self.prefix) in word for word in p.info["cmdline"] or ())
        ]  # fmt: skip


def build(hook: str, tree: Path, into: Path) -> Path:
    """Return what a hook of the build backend makes of a source tree."""
    words = [sys.executable, "-c", BUILD, hook, str(into)]
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of the source archive, which is built of a copy of the checkout."""
    root = tmp_path_factory.mktemp("wheel")
    for name in SOURCE:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, root / "tree" / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, root / "tree" / name)
    archive = build("build_sdist", root / "tree", root)
    with tarfile.open(archive) as packed:
        packed.extractall(root / "unpacked", filter="data")
    (tree,) = (root / "unpacked").iterdir()
    return build("build_wheel", tree, root)


@contextmanager
def place(root: Path) -> Iterator[Installation]:
    """Yield where an installation goes; at the end nothing of it runs, or lies about."""
    (root / "empty").mkdir()
    with tempfile.TemporaryDirectory(prefix="fw", dir="/tmp") as temporary:
        made = Installation(root / "env", root / "empty", Path(temporary))
        yield made
        assert made.processes() == []
        assert [str(p) for p in made.temporary.rglob("*") if p.is_file()] == []
    assert [p.name for p in made.cwd.iterdir() if p.name != "home"] == []


def install(wheel: Path, made: Installation, *, packages: list[Path]) -> None:
    """Install the wheel where it finds its requirements in other folders."""
    prefix = made.prefix
    venv.create(prefix, symlinks=True, with_pip=False)
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-compile", str(wheel)]
    pip = [sys.executable, "-m", "pip", "--python", str(prefix / "bin" / "python")]
    subprocess.run([*pip, *words], cwd=prefix, check=True, timeout=120)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    beside = prefix / "lib" / version / "site-packages" / "beside.pth"
    beside.write_text("\n".join(str(folder) for folder in packages), encoding="utf-8")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The wheel beside the packages of this environment, without the checkout."""
    with place(tmp_path_factory.mktemp("installed")) as made:
        install(wheel, made, packages=[Path(p) for p in site.getsitepackages()])
        where = "import sys, fedflow; print(fedflow.__file__, *sys.path, sep='\\n')"
        file, *path = made.run("-c", where, program="python").splitlines()
        assert Path(file).is_relative_to(made.prefix)
        assert str(ROOT) not in path
        yield made


@pytest.fixture
def server(installed: Installation) -> Iterator[str]:
    """The address of a server of the wheel."""
    words = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--json")
    url = "http://" + json.loads(installed.run("server", "start", *words))["http"]
    try:
        yield url
    finally:
        installed.run("server", "stop")


def test_the_wheel_has_every_file_of_the_package_and_the_licences(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "fedflow"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [f for f in listed.stdout.splitlines() if f not in names and (ROOT / f).exists()] == []
    data = {name.partition(".data/data/")[2] for name in names}
    shipped = ("service_conf.yaml", "serving_conf.yaml", "fedflow.service")
    confs = {f"share/fedflow/conf/{name}" for name in shipped}
    assert {*confs, SLIM} <= data
    licences = {name.partition(".dist-info/licenses/")[2] for name in names}
    assert {"LICENSE", "NOTICE", "fedflow/web/apidocs/LICENSE"} <= licences


def test_the_demo_runs_in_an_empty_folder(installed: Installation) -> None:
    found = json.loads(installed.run("demo", "--key-length", "1024", "--rounds", "4", "--json"))
    assert found["job"]["status"] == "success"
    assert found["federated"]["auc"] > 0.9
    assert installed.processes() == []
    assert list(installed.temporary.rglob("*")) == []
    assert list(installed.cwd.rglob("*")) == []


def test_a_server_has_all_it_shows(installed: Installation, server: str) -> None:
    assert server in installed.run("server", "status")
    modules = json.loads(installed.run("component", "list", "--server", server, "--json"))
    assert "HeteroLR" in json.dumps(modules)

    def page(path: str, **headers: str) -> str:
        answer = requests.get(server + path, headers=headers, timeout=20)
        assert answer.status_code == 200, path
        return answer.text

    jobs = page("/board/jobs", **{"Accept-Language": "zh-CN"})
    assert "作业" in jobs
    linked = set(re.findall(r'(?:src|href)="(/board/static/[^"]+)"', jobs))
    assert len(linked) > 2
    for link in linked:
        page(link)
    assert "swagger" in page("/v1/docs")
    assert "/v1/job/submit" in page("/v1/openapi.json")
    assert "hetero_lr" in page("/board/submit")


# --- the slim one ---------------------------------------------------------------------------------


def test_the_slim_requirements_are_all_but_the_libraries() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "conf" / "requirements-slim.txt").read_text().splitlines()
    slim = [line for line in lines if not line.startswith("#")]
    others = [line for line in project["dependencies"] if line not in slim]
    assert [re.split(r"[<>=]", line)[0] for line in others] == list(LIBRARIES.values())
    assert slim == [line for line in project["dependencies"] if line not in others]
    assert project["optional-dependencies"]["ml"] == []


@pytest.fixture
def slim(wheel: Path, tmp_path: Path) -> Iterator[Installation]:
    """The wheel beside the packages of this environment, but for what only components need."""
    packages = tmp_path / "packages"
    packages.mkdir()
    left_out = tuple({*LIBRARIES, "scikit_learn"})
    for folder in map(Path, site.getsitepackages()):
        for one in folder.iterdir():
            if not one.name.startswith(left_out) and not one.name.endswith(".pth"):
                (packages / one.name).symlink_to(one)
    with place(tmp_path) as made:
        install(wheel, made, packages=[packages])
        yield made


def test_a_slim_server_answers_and_says_what_components_need(slim: Installation) -> None:
    words = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--json")
    url = "http://" + json.loads(slim.run("server", "start", *words))["http"]
    try:
        at = ("--server", url)
        assert "No jobs" in slim.run("job", "list", *at)
        assert "can be reached" in slim.run("party", "ping", "9999", *at)
        assert requests.get(f"{url}/board/jobs", timeout=20).status_code == 200
        data = slim.prefix / "share/fedflow/examples"
        job = ("-c", str(data / "hetero_lr/conf.json"), "-d", str(data / "hetero_lr/dsl.json"))
        file = str(data / "data/breast_hetero_guest.csv")
        refused = [
            slim.run("component", "list", *at, code=1),
            slim.run("job", "submit", *job, *at, code=1),
            slim.run("data", "upload", "-f", file, "-n", "e", "-t", "guest", *at, code=1),
            slim.run("component", "test", "HeteroLR", code=1),
        ]
    finally:
        slim.run("server", "stop")
    for text in refused:
        assert "it lacks packages: numpy, pyarrow, gmpy2, scikit-learn, cloudpickle" in text
        assert "pip install fedflow" in text
    (log,) = slim.cwd.rglob("server.log")
    assert log.read_text().count("Traceback") <= 1  # of the process that could not import them


# --- as from an index -----------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_bare_environment_runs_the_demo(wheel: Path, tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    with place(tmp_path) as bare:
        subprocess.run([python, "-m", "venv", str(bare.prefix)], check=True, timeout=120)
        pip(bare, "install", str(wheel))
        pip(bare, "check")
        found: dict[str, Any] = json.loads(bare.run("demo", "--key-length", "1024", "--json"))
        assert found["job"]["status"] == "success"
        assert found["federated"]["auc"] > 0.98


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_a_slim_environment_is_installed_as_its_file_says(wheel: Path, tmp_path: Path) -> None:
    with place(tmp_path) as slim:
        subprocess.run([sys.executable, "-m", "venv", str(slim.prefix)], check=True, timeout=120)
        pip(slim, "install", "--no-deps", str(wheel))
        pip(slim, "install", "--requirement", str(slim.prefix / SLIM))
        assert "numpy" in slim.run("component", "test", "HeteroLR", code=1)


def interpreter(version: str) -> str:
    """Return a Python of this machine, of the PATH or of pyenv; skips the test if there is none."""
    name = f"python{version}"
    for found in (shutil.which(name), *Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}")):
        words = [str(found), "-c", "import venv, ensurepip"]
        if found and not subprocess.run(words, capture_output=True, check=False).returncode:
            return str(found)
    pytest.skip(f"{name} is not installed")


def pip(made: Installation, *words: str) -> None:
    """Run pip with the settings of this machine, which say where its index is."""
    subprocess.run(
        [str(made.python), "-m", "pip", "--quiet", "--disable-pip-version-check", *words],
        cwd=made.prefix, check=True, timeout=800,
    )  # fmt: skip
