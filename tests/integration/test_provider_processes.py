"""Providers in folders, asked and run in interpreters of their own."""

from __future__ import annotations

import contextlib
import json
import shutil
import site
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import fedflow
from fedflow import __version__
from fedflow.base.errors.components import BadParameter, ProviderRefused
from fedflow.base.ids import PartyId
from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.components.registry import describe
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.providers import ProviderManifest, RegisteredProvider
from fedflow.domain.site import Role, Site
from fedflow.executor.provider_folder import ProviderFile, ProviderFolders
from fedflow.executor.provider_process import ProviderProcesses
from fedflow.executor.zygote import ZygoteExecutor
from fedflow.sdk.component import spec_of
from fedflow.worker.exit_codes import ExitCode
from tests.support.executors import RecordingEvents, WorkerServer, write_launch

EXAMPLE = Path(fedflow.__file__).parent.parent / "examples" / "provider"
GUEST = Site(Role.GUEST, PartyId("9999"))

WHERE = """
import os, sys
from fedflow.sdk import Context, Outputs, component

@component("Where", roles=("guest",), needs_input=False)
def where(ctx: Context, *, how: str = "well") -> Outputs:
    "Tell where it runs."
    if how == "raise":
        raise RuntimeError("no")
    if how == "exit":
        os._exit(9)
    print(bytes(range(256)))
    return Outputs(summary={
        "prefix": sys.prefix, "path": os.environ["PYTHONPATH"], "file": __file__,
        "builtin": "fedflow.components.builtin" in sys.modules,
    })
"""


def folder(root: Path, code: str, **changes: str) -> Path:
    """Return a provider folder with one module."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "lab.py").write_text(code, encoding="utf-8")
    manifest = {"name": "lab", "version": "1.0", "components": "lab:where", **changes}
    (root / "provider.json").write_text(json.dumps(manifest), encoding="utf-8")
    return root


def own_interpreter(root: Path, *, with_fedflow: bool = True) -> Path:
    """Return an environment's interpreter, which finds fedflow's packages, or none."""
    venv.create(root, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = root / "lib" / version / "site-packages"
    if with_fedflow:
        found = [*site.getsitepackages(), str(Path(fedflow.__file__).parent.parent)]
        (packages / "fedflow.pth").write_text("\n".join(found), encoding="utf-8")
    return root / "bin" / "python"


@pytest.fixture
def host() -> ProviderProcesses:
    return ProviderProcesses()


def read(path: Path) -> ProviderManifest:
    return ProviderFolders((path.parent,)).read(str(path))


def test_the_example_is_described_and_its_parameters_are_checked(host: ProviderProcesses) -> None:
    manifest = read(EXAMPLE)
    described = {one["module"]: one for one in host.describe(manifest)}
    names = {"ClipValues", "CompareMeans", "RidgeRegression", "SharedRegression"}
    assert set(described) == names
    assert described["ClipValues"]["defaults"]["upper"] == 3.0
    host.check(manifest, "ClipValues", {"upper": 1.0}, path="$")
    with pytest.raises(BadParameter) as caught:
        host.check(manifest, "ClipValues", {"upper": "x", "columns": [1]}, path="$")
    assert {path for path, _ in caught.value.mistakes} == {"$.upper", "$.columns[0]"}
    alone = PlannedRun(site=GUEST, sites=(GUEST,))
    with pytest.raises(BadParameter, match="a host to compare with"):
        host.check(manifest, "CompareMeans", {}, path="$", run=alone)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise RuntimeError('broken on import')", "broken on import"),
        ("import no_such_module", "no_such_module"),
        ("import sys; sys.exit('gone')", "SystemExit: gone"),
        ("where = 5", "int"),
        ("import os; os._exit(3)", "no answer"),
        ("import os; os.write(1, bytes(range(256))); os.kill(os.getpid(), 11)", "ended without"),
        ("where = ()", "holds no component"),
    ],
)
def test_components_that_cannot_be_had_are_refused(
    tmp_path: Path, host: ProviderProcesses, code: str, words: str
) -> None:
    with pytest.raises(ProviderRefused, match=words):
        host.describe(read(folder(tmp_path / "p", code)))


def test_a_folder_that_hangs_or_floods_is_given_up_and_its_children_with_it(tmp_path: Path) -> None:
    hangs = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    with pytest.raises(ProviderRefused, match="did not answer within"):
        ProviderProcesses(timeout_s=2).describe(read(folder(tmp_path / "a", hangs)))
    floods = (
        "import os, fcntl\nblock = b'x' * 65536\n"
        "pipe = next(f for f in range(3, 50) if os.path.exists(f'/dev/fd/{f}')"
        " and os.readlink(f'/dev/fd/{f}').startswith('pipe'))\n"
        "while True: os.write(pipe, block)"
    )
    with pytest.raises(ProviderRefused, match="longer than"):
        ProviderProcesses().describe(read(folder(tmp_path / "b", floods)))


def test_what_a_folder_prints_without_end_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflow.executor.provider_process._PRINTED_BYTES", 100_000)
    prints = "import os\nblock = b'x' * 4096\nwhile True: os.write(1, block)"
    with pytest.raises(ProviderRefused, match="prints without end"):
        ProviderProcesses().describe(read(folder(tmp_path / "p", prints)))


@pytest.mark.parametrize("rest", ["", "time.sleep(600)"])
def test_processes_in_sessions_of_their_own_end_with_the_question(
    tmp_path: Path, rest: str
) -> None:
    noted = tmp_path / "pid"
    daemon = (
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"open({str(noted)!r}, 'w').write(str(child.pid))\n{rest}\n"
    )
    host = ProviderProcesses(timeout_s=10 if rest else 60)
    with contextlib.suppress(ProviderRefused):
        host.describe(read(folder(tmp_path / "p", daemon + WHERE)))
    assert not is_running(int(noted.read_text()))


def test_a_process_that_takes_long_to_end_has_ended_with_the_question(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    big = (
        "import os, sys, time\n"
        f"held = b'x' * {256 * 2**20}\n"
        f"open({str(tmp_path / 'part')!r}, 'w').write(str(os.getpid()))\n"
        f"os.replace({str(tmp_path / 'part')!r}, {str(noted)!r})\n"
        "time.sleep(600)\n"
    )
    daemon = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {big!r}], start_new_session=True)\n"
        f"while not os.path.exists({str(noted)!r}):\n"
        "    time.sleep(0.01)\n"
        "print('x' * 80_000_000, flush=True)\n"  # more than it may print: the server ends it
        "time.sleep(600)\n"
    )
    with pytest.raises(ProviderRefused, match="prints without end"):
        ProviderProcesses().describe(read(folder(tmp_path / "p", daemon + WHERE)))
    assert not is_running(int(noted.read_text()))


def is_running(pid: int) -> bool:
    """Tell whether a process lives; a dead one that nobody has waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"problems": []},
        {"problems": [], "described": [{"module": "X", "aliases": []}]},
        {"problems": [], "described": ["X"]},
        {"failed": {"a": 1}},
        "[" * 100_000,
    ],
)
def test_an_answer_that_is_no_description_is_refused(tmp_path: Path, answer: Any) -> None:
    told = answer if isinstance(answer, str) else json.dumps({"fedflow": __version__, **answer})
    (tmp_path / "answer").write_text(told, encoding="utf-8")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncat {tmp_path}/answer > /dev/fd/$4\n", encoding="utf-8")
    python.chmod(0o700)
    manifest = read(folder(tmp_path / "p", WHERE, python=str(python)))
    with pytest.raises(ProviderRefused):
        ProviderProcesses().describe(manifest)


def test_the_process_has_an_end_of_its_own_in_case_the_server_dies(
    tmp_path: Path, host: ProviderProcesses
) -> None:
    code = "import signal\nraise RuntimeError(f'an end: {signal.alarm(0) > 60}')"
    with pytest.raises(ProviderRefused, match="an end: True"):
        host.describe(read(folder(tmp_path / "p", code)))


def test_a_folder_that_is_gone_is_named(tmp_path: Path, host: ProviderProcesses) -> None:
    manifest = read(folder(tmp_path / "p", WHERE))
    shutil.rmtree(tmp_path / "p")
    with pytest.raises(ProviderRefused, match=r"its folder .*/p is gone"):
        host.check(manifest, "Where", {}, path="$")


def test_an_interpreter_without_fedflow_is_refused(tmp_path: Path, host: ProviderProcesses) -> None:
    python = own_interpreter(tmp_path / "venv", with_fedflow=False)
    path = folder(tmp_path / "p", WHERE, python=str(python))
    with pytest.raises(ProviderRefused, match="fedflow is not installed for its interpreter"):
        host.describe(read(path))


def test_another_fedflow_is_refused(
    tmp_path: Path, host: ProviderProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflow.executor.provider_process.__version__", "99.0")
    with pytest.raises(ProviderRefused, match=r"this server is 99\.0"):
        host.describe(read(folder(tmp_path / "p", WHERE)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "fate"}, "not FATE's own"),
        ({"name": "../x"}, "must be 1 to 20"),
        ({"version": ""}, "version"),
        ({"components": "os"}, "module:attribute"),
        ({"python": "no/such/python"}, "is no program"),
        ({"pyhton": "x"}, "unknown field"),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    path = folder(tmp_path / "p", WHERE, **changes)
    with pytest.raises(ProviderRefused, match=words):
        read(path)


def test_only_folders_below_the_allowed_ones_are_read(tmp_path: Path) -> None:
    inside, outside = folder(tmp_path / "in" / "p", WHERE), folder(tmp_path / "out", WHERE)
    allowed = ProviderFolders((tmp_path / "in",))
    assert allowed.read(str(inside)).name == "lab"
    (tmp_path / "in" / "link").symlink_to(outside)
    for path in (outside, tmp_path / "in" / "link", tmp_path / "in" / ".." / "out", Path("in/p")):
        with pytest.raises(ProviderRefused):
            allowed.read(str(path))
    (inside / "provider.json").unlink()
    with pytest.raises(ProviderRefused, match=r"no provider\.toml"):
        allowed.read(str(inside))


def test_folders_that_every_user_may_write_to_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path / "in" / "p", WHERE)
    allowed = ProviderFolders((tmp_path / "in",))
    for open_to_all in (path, path / "provider.json", path.parent):
        mode = open_to_all.stat().st_mode
        open_to_all.chmod(0o777)
        with pytest.raises(ProviderRefused, match="every user may write"):
            allowed.read(str(path))
        assert ProviderFolders((tmp_path,), own=True).read(str(path)).name == "lab"
        open_to_all.chmod(mode)
    path.parent.chmod(0o1777)
    assert allowed.read(str(path)).name == "lab"


def test_nothing_is_told_of_folders_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    told = set()
    for name in ("there", "absent"):
        if name == "there":
            (tmp_path / name).mkdir()
        with pytest.raises(ProviderRefused) as caught:
            ProviderFolders((tmp_path / "in",)).read(str(tmp_path / name))
        told.add(caught.value.fields["reason"])
    assert len(told) == 1


@pytest.mark.parametrize("text", ["[" * 60_000, "{" * 3, "x" * 70_000, "\ud800", ""])
def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    path = folder(tmp_path / "p", WHERE)
    for file in (path / "provider.json", path / "provider.toml"):
        prefix = b"a=" if file.suffix == ".toml" and text.startswith("[") else b""
        file.write_bytes(prefix + text.encode("utf-8", "surrogatepass"))
        with pytest.raises(ProviderRefused):
            read(path)


def test_registrations_survive_and_a_damaged_file_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "providers.json"
    manifest = read(EXAMPLE)
    described = (describe(spec_of(Evaluation)),)
    one = RegisteredProvider(manifest=manifest, described=described, registered_ms=1)
    ProviderFile(path).put(one)
    assert list(ProviderFile(path).all()) == [one]
    assert not ProviderFile(path).remove("examples", "9")
    assert ProviderFile(path).remove("examples", "1.0")
    assert list(ProviderFile(path).all()) == []
    older = RegisteredProvider(manifest=manifest, described=({"module": "M"},), registered_ms=1)
    ProviderFile(path).put(older)
    assert list(ProviderFile(path).all()) == []
    path.write_bytes(b"\xff[")
    assert list(ProviderFile(path).all()) == []


class World:
    """An executor, its server, and a provider with an interpreter of its own."""

    def __init__(self, root: Path, executor: ZygoteExecutor, events: RecordingEvents) -> None:
        self.root, self.executor, self.events = root, executor, events
        self.server = WorkerServer(root / "server.sock")
        python = own_interpreter(root / "venv")
        self.manifest = read(folder(root / "provider", WHERE, python=str(python)))

    def run(self, name: str, provider: ProviderManifest | None = None, **parameters: Any) -> Any:
        """Return (end, last report, printed text) of a run."""
        provider = provider or self.manifest
        launch = write_launch(
            self.root, launch_id=name, module="where", server_socket=self.server.path,
            parameters=parameters, provider=provider,
        )  # fmt: skip
        self.executor.start(launch)
        end = self.events.end(name, 30)
        reports = [
            r.body
            for r in self.server.requests
            if r.token == f"secret-of-{name}" and r.command == "report"
        ]
        return end, reports[-1] if reports else None, (launch.log_dir / "stdout.log").read_text()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    events = RecordingEvents()
    executor = ZygoteExecutor(events=events, python=sys.executable, preload=())
    executor.open()
    assert executor.wait_ready(30)
    made = World(tmp_path_factory.mktemp("x"), executor, events)
    with made.server:
        yield made
    executor.close(1.0, kill=True)


def test_a_run_has_the_interpreter_of_its_provider_and_nothing_of_the_servers(world: World) -> None:
    end, report, printed = world.run("good")
    assert end == (ExitCode.SUCCESS, None)
    assert report["summary"] == {
        "prefix": str(world.root / "venv"),
        "path": world.manifest.path,
        "file": f"{world.manifest.path}/lab.py",
        "builtin": False,
    }
    assert "\\xff" in printed


def test_a_provider_that_fails_or_vanishes_hurts_its_own_run_only(world: World) -> None:
    end, report, _ = world.run("raises", how="raise")
    assert (end, report["error"]["code"]) == ((ExitCode.FAILED, None), "ComponentFailed")
    end, _, _ = world.run("exits", how="exit")
    assert end == (9, None)
    broken = read(folder(world.root / "folders" / "broken", "import no_such_module"))
    end, report, _ = world.run("broken", broken)
    assert (end, report["party_status"]) == ((ExitCode.FAILED, None), "failed")
    bare = own_interpreter(world.root / "folders" / "bare-venv", with_fedflow=False)
    end, report, printed = world.run(
        "bare", read(folder(world.root / "folders" / "unequipped", WHERE, python=str(bare)))
    )
    assert (end, report) == ((1, None), None)
    assert "fedflow" in printed
    gone = read(folder(world.root / "folders" / "gone", WHERE, python=str(bare)))
    shutil.rmtree(world.root / "folders" / "bare-venv")
    launch = write_launch(
        world.root, launch_id="gone", module="where", server_socket=world.server.path,
        provider=gone,
    )  # fmt: skip
    world.executor.start(launch)
    failure = world.events.failure("gone")
    assert "No such file or directory (python)" in failure
    assert str(world.root) not in failure  # other parties read it
    assert world.run("again")[0] == (ExitCode.SUCCESS, None)
