"""What the history of a model costs with 10,000 commits, over HTTP, one client.

    .venv/bin/python benchmarks/model_history.py [--commits 10000] [--asks 100] [--json]

SQLite, and MySQL at FEDFLOW_TEST_MYSQL or 127.0.0.1:3306 if one answers. Every second version is a
training that began with the one before it, the others are deploys; each has a message, the DSL and
conf of ten components. There are 100 branches, one of them with 1,000 moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figure, Machine, arguments, show
from parties import Party
from queries import ENGINES, GUEST, filled_server

from fedflow.client.model_history import CommitCalls
from fedflow.domain.models.history import Author, BranchKey, CommitNote, Move, MoveKind
from fedflow.domain.models.model import ModelKey, ModelVersion
from fedflow.store.connect import open_mysql, open_sqlite

MODEL_ID = "arbiter-10000#guest-9999#host-10000#model"
BUDGET_MS = 50.0
BRANCHES = 100
MOVES = 1000
AUTHOR = Author(party_id="9999", person="ana")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--asks", type=int, default=100, help="of each question")
    options = parser.parse_args()
    for engine in ENGINES:
        machine = Machine()
        with filled_server(
            engine, lambda home, login: _fill(home, login, options.commits)
        ) as party:
            if party is None:
                return
            figures = [
                _figure(what, ask, options.asks) for what, ask in _asks(party, options.commits)
            ]
            title = f"History of a model, {options.commits} commits, {engine}"
            show(title, figures, as_json=options.json, machine=machine)


def _figure(what: str, ask: Callable[[], object], asks: int) -> Figure:
    """Return how long requests took, as the client sees it."""
    ask()
    taken = []
    for _ in range(asks):
        began_s = time.perf_counter()
        ask()
        taken.append(1000 * (time.perf_counter() - began_s))
    return Figure(what=what, unit="ms", values=taken, budget=BUDGET_MS)


def _asks(party: Party, commits: int) -> list[tuple[str, Callable[[], object]]]:
    """Return the questions; pages have 50 commits."""
    calls, newest, old = party.client.commits, _version(commits - 1), _version(100)
    last = _last_page(calls, None)
    walked = _last_page(calls, newest)
    return [
        ("log, first page", lambda: calls.page(MODEL_ID)),
        ("log, last page", lambda: calls.page(MODEL_ID, after=last)),
        ("log of a version, first page", lambda: calls.page(MODEL_ID, newest)),
        ("log of a version, last page", lambda: calls.page(MODEL_ID, newest, after=walked)),
        ("log of a branch, first page", lambda: calls.page(MODEL_ID, "branch:release")),
        ("one commit", lambda: calls.show(MODEL_ID, old)),
        ("what differs between two", lambda: calls.diff(MODEL_ID, old, newest)),
        ("branches", lambda: calls.branches(MODEL_ID)),
        ("moves of a branch, 1,000", lambda: calls.moves(MODEL_ID, "release")),
    ]


def _last_page(calls: CommitCalls, start: str | None) -> str:
    """Return what leads to the last full page of a log."""
    after: str | None = None
    cursors: list[str] = []
    while True:
        page = calls.page(MODEL_ID, start, after=after)
        if page.next is None:
            return cursors[-1]
        after = page.next
        cursors.append(after)


# --- filling --------------------------------------------------------------------------------------


def _version(number: int) -> str:
    return f"2026112800{number:012}"


def _fill(home: Path, login: dict[str, Any], commits: int) -> None:
    store = open_mysql(**login) if login else open_sqlite(home / "fedflow.sqlite")
    for first in range(0, commits, 500):
        with store.transaction() as tx:
            for number in range(first, min(first + 500, commits)):
                share = _share(number)
                tx.models.put(share)
                tx.model_history.put_note(_note(share.key, number))
    with store.transaction() as tx:
        for number in range(BRANCHES):
            tx.model_history.add_move(
                _move(f"experiment/{number}", 1, number * commits // BRANCHES)
            )
        for number in range(1, MOVES + 1):
            tx.model_history.add_move(_move("release", number, commits - 1 - number % 2))
    store.close()


def _share(number: int) -> ModelVersion:
    """Return a training, or of an odd number a deploy of the version before."""
    names = [f"hetero_lr_{n}" for n in range(9)]
    component = {"module": "HeteroLR", "input": {"data": {"data": ["reader_0.data"]}},
                 "output": {"data": ["data"], "model": ["model"]}}  # fmt: skip
    loader = {"module": "ModelLoader", "output": {"model": ["model"]}}
    parameters = {name: {"max_iter": 30, "penalty": "L2", "tol": 1e-4, "alpha": 0.01,
                         "optimizer": "sgd", "batch_size": 320, "learning_rate": 0.15,
                         "init_param": {"init_method": "zeros"}} for name in names}  # fmt: skip
    trained = number - number % 2
    if trained >= 2:
        source = {"model_id": MODEL_ID, "model_version": _version(trained - 2)}
        parameters["load_0"] = {**source, "component_name": names[0]}
    at_ms = 1_793_000_000_000 + 1000 * number
    descent = {"parent_model_id": MODEL_ID, "parent_model_version": _version(trained)}
    deployed = number != trained
    dsl = {"components": {"load_0": loader, **dict.fromkeys(names, component)}}
    return ModelVersion(
        key=ModelKey(site=GUEST, model_id=MODEL_ID, model_version=_version(number)),
        job_id=_version(number), roles={"guest": ["9999"], "host": ["10000"]}, initiator=GUEST,
        train_dsl=dsl, train_conf={"component_parameters": {"common": parameters}},
        conf_on_party={"component_parameters": {"common": parameters}}, fate_version="1.11.4",
        created_ms=at_ms, updated_ms=at_ms, parent=not deployed,
        parent_info=descent if deployed else {}, inference_dsl=dsl if deployed else {},
    )  # fmt: skip


def _note(key: ModelKey, number: int) -> CommitNote:
    return CommitNote(
        key=key, id=f"c{number}", message=f"the {number}th try, with another learning rate",
        author=AUTHOR, shares={"guest_9999": "0" * 64, "host_10000": "1" * 64},
        made_with={"fedflow": "0.1.0", "tables": []}, created_ms=1_793_000_000_000 + number,
    )  # fmt: skip


def _move(name: str, number: int, to: int) -> Move:
    return Move(
        key=BranchKey(site=GUEST, model_id=MODEL_ID, name=name), number=number,
        id=f"{name}{number}", kind=MoveKind.CREATE if number == 1 else MoveKind.MOVE,
        model_version=_version(to), author=AUTHOR, created_ms=1_793_000_000_000 + number,
    )  # fmt: skip


if __name__ == "__main__":
    main()
