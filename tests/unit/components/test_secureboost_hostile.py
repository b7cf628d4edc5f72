"""A party of HeteroSecureBoost that lies: each value is checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError, PeerFailed, ValueTooLate
from fedflow.components.boosting.sums import SlotLayout
from fedflow.domain.site import Site
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.federation import LocalFederation
from tests.unit.components.boosting_parties import (
    GUEST,
    HOST,
    HOST_2,
    data_of,
    models_of,
    rows_of,
    run,
)

pytestmark = pytest.mark.timeout(120)

ROWS = 40
SAMPLED = 20  #: rows that train a tree
DATA = data_of(rows=ROWS)
PORTS = {"train_data": DATA, "validate_data": rows_of(DATA, slice(0, 10))}
PARAMS: dict[str, Any] = {
    "num_trees": 1,
    "bin_num": 6,
    "run_goss": True,
    "top_rate": 0.25,
    "other_rate": 0.25,
    "tree_param": {"max_depth": 2},
}
ANYTHING: list[Any] = [None, "x", [], {"a": 7}, b"", np.zeros(3)]  #: what no message is
OTHER_KEY = PrivateKey.generate(1024)


class Lying(LocalFederation):
    """Changes the first message of a name that is not empty, on its way from one party."""

    def __init__(
        self,
        liar: Site,
        name: str,
        lie: Callable[[Any], Any],
        *,
        tag: str | None = None,
        patience_s: float = 20.0,
    ) -> None:
        super().__init__((GUEST, HOST), receive_timeout_s=patience_s)
        self.lied = False
        self.key: PublicKey | None = None  #: the guest's
        self._liar, self._name, self._tag = liar, name, tag
        self._lie, self._patience_s = lie, patience_s

    def _put(self, key: Any, value: Any, size: int) -> None:
        if key.name == "public_key":
            self.key = PublicKey.parse(value["n"], bits=1024)
        is_it = (key.source, key.name) == (self._liar, self._name)
        is_it = is_it and self._tag in (None, key.tag) and not self.lied
        if is_it and not (isinstance(value, list | type(None)) and not value):
            self.lied = True
            value = self._lie(value)
        super()._put(key, value, size)

    def _take(self, key: Any, timeout_s: float | None) -> Any:
        return super()._take(key, self._patience_s)


def error_of(federation: Lying, liar: Site, tmp_path: Path) -> Exception | None:
    """Return what the other party says."""
    victim = HOST if liar is GUEST else GUEST
    return run(DATA, tmp_path, ports=PORTS, federation=federation, **PARAMS)[victim].error


def assert_refused(
    liar: Site, name: str, lie: Callable[[Any], Any], tmp_path: Path, **more: Any
) -> str:
    federation = Lying(liar, name, lie, **more)
    error = error_of(federation, liar, tmp_path)
    assert federation.lied
    assert isinstance(error, CodecError), error
    return str(error)


def always(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def member(**values: Any) -> Callable[[Any], Any]:
    """Return what changes members of an object, or of the first of a list."""

    def lie(value: Any) -> Any:
        return [{**value[0], **values}, *value[1:]] if isinstance(value, list) else value | values

    return lie


def at(place: int, value: Any) -> Callable[[Any], Any]:
    def lie(array: Any) -> Any:
        changed = array.copy()
        changed[place] = value
        return changed

    return lie


def huge(nodes: Any) -> Any:
    """Return nodes with as many rows as before, if they are added up."""
    first, *rest = nodes
    return [{**first, "rows": 2**63}, {**first, "rows": first["rows"] - 2**63}, *rest]


def equal_first(array: Any) -> Any:
    changed = array.copy()
    changed[0] = changed[1]
    return changed


def shapes(dtype: Any, *, longer: bool = True) -> list[Callable[[Any], Any]]:
    """Return what makes an array of another kind, size or shape."""
    found: list[Callable[[Any], Any]] = [
        lambda a: a.astype(dtype),
        lambda a: a[:-1],
        lambda a: a.reshape(1, -1),
        lambda a: a.tobytes(),
        lambda a: a.tolist(),
    ]
    return [*found, lambda a: np.concatenate([a, a])] if longer else found


# --- what a host refuses --------------------------------------------------------------------------

GUEST_LIES: list[tuple[str, Callable[[Any], Any]]] = [
    *[("tree_plan", always(value)) for value in ANYTHING],
    *[("tree_plan", member(rows=n)) for n in (-1, ROWS + 1, "20", 1.5, True, None, 2**70)],
    *[("tree_plan", member(bits=n)) for n in (7, 31, -1, "30", None, 2**70)],
    *[("sampled_rows", always(value)) for value in ANYTHING],
    *[("sampled_rows", lie) for lie in shapes(np.int32)],
    *[("sampled_rows", at(0, n)) for n in (-1, ROWS, 2**62)],
    ("sampled_rows", equal_first),
    *[("encrypted_grad_and_hess", always(value)) for value in ANYTHING],
    ("encrypted_grad_and_hess", lambda b: b[:-1]),
    ("encrypted_grad_and_hess", lambda b: b[:-256]),
    ("encrypted_grad_and_hess", lambda b: b + b[-256:]),
    ("encrypted_grad_and_hess", lambda b: b[:-256] + b"\0" * 256),
    ("encrypted_grad_and_hess", lambda b: b[:-256] + b"\xff" * 256),
    ("encrypted_grad_and_hess", lambda b: b"XXXX" + b[4:]),
    ("encrypted_grad_and_hess", lambda _: OTHER_KEY.public.message(_of_other_key(SAMPLED))),
    *[("tree_node_queue", always(value)) for value in ANYTHING],
    *[("tree_node_queue", member(nodes=n)) for n in (2, -1, True, "1", None, 1.0, 2**70)],
    *[("node_positions", always(value)) for value in ANYTHING],
    *[("node_positions", lie) for lie in shapes(np.int64)],
    *[("node_positions", at(3, n)) for n in (-2, 1, 2**31 - 1)],
    *[("dispatch_node_host", always(value)) for value in ANYTHING[:2] + ANYTHING[3:]],
    ("dispatch_node_host", always([1])),
    *[("dispatch_node_host", member(node=n)) for n in (-1, 3, 2**70, "0", None, True)],
    *[("dispatch_node_host", member(rows=n)) for n in (0, -1, ROWS - 1, 2**70, "1", None)],
    *[
        ("dispatch_node_host", member(candidates=n))
        for n in ([], [-1], [15], [0, 2**70], ["0"], None, 3, [True])
    ],
    ("dispatch_node_host", lambda v: [v[0] | {"rows": n} for n in (1, v[0]["rows"] - 1)]),
    ("dispatch_node_host", huge),
    ("dispatch_node_host", lambda v: [v[0], v[0] | {"node": 1, "rows": 0}]),
    *[("dispatch_rows", always(value)) for value in ANYTHING],
    *[("dispatch_rows", lie) for lie in shapes(np.int32)],
    *[("dispatch_rows", at(0, n)) for n in (-1, ROWS)],
    ("dispatch_rows", equal_first),
    *[("stop_flag", always(value)) for value in ANYTHING],
    *[("stop_flag", member(stop=n)) for n in (False, 1, "yes", None)],
    *[("stop_flag", member(converged=n)) for n in (0, None)],
    *[("stop_flag", member(best=n)) for n in (1, -2, True, "0", None)],
    *[("guest_predict_data", always(value)) for value in ANYTHING[1:2] + ANYTHING[3:]],
    *[("guest_predict_data", member(tree=n)) for n in (-1, 1, 2**70, "0", None)],
    *[("guest_predict_data", member(node=n)) for n in (-1, 6, 2**70, "0", None)],
    *[("guest_predict_data", member(rows=n)) for n in (0, -1, 11, 2**70, "1", None)],
    ("guest_predict_data", huge),
    *[("guest_predict_rows", always(value)) for value in ANYTHING],
    *[("guest_predict_rows", lie) for lie in shapes(np.int64)],
    *[("guest_predict_rows", at(0, n)) for n in (-1, 10)],
]


def _of_other_key(count: int) -> bytes:
    return OTHER_KEY.public.body(OTHER_KEY.public.encrypt([1] * count))


def each(lies: list[tuple[str, Callable[[Any], Any]]]) -> Any:
    named = [pytest.param(*lie, id=f"{lie[0]}-{number}") for number, lie in enumerate(lies)]
    return pytest.mark.parametrize(("name", "lie"), named)


@each(GUEST_LIES)
def test_a_host_refuses_what_a_guest_must_not_say(name: str, lie: Any, tmp_path: Path) -> None:
    said = assert_refused(GUEST, name, lie, tmp_path)
    assert name.partition("_")[0] in said or name.startswith("encrypted")


def test_a_host_refuses_a_level_too_many(tmp_path: Path) -> None:
    said = assert_refused(GUEST, "tree_node_queue", always({"nodes": 1}), tmp_path, tag="0.0.2")
    assert "goes on past depth 2" in said


def test_a_host_answers_no_more_levels_than_a_tree_has(tmp_path: Path) -> None:
    models = models_of(run(DATA, tmp_path / "1", **PARAMS))
    federation = LocalFederation((GUEST, HOST))
    guest = federation.at(GUEST)
    guest.send("sample_ids", honest_ids(tmp_path), to=HOST, tag="predict")
    for level in range(3):
        guest.send("guest_predict_data", [], to=HOST, tag=f"predict.{level}")
    results = run(
        DATA,
        tmp_path / "2",
        ports={"test_data": DATA},
        models=models,
        federation=federation,
        only=[HOST],
    )
    assert "more than 2 levels" in str(results[HOST].error)


def honest_ids(tmp_path: Path) -> Any:
    """Return what a party says of its ids."""
    heard = Listening((GUEST, HOST))
    run(DATA, tmp_path / "ids", federation=heard, **PARAMS)
    return next(value for key, value in heard.values if key.name == "sample_ids")


# --- what a guest refuses -------------------------------------------------------------------------

HOST_LIES: list[tuple[str, Callable[[Any], Any]]] = [
    *[("candidates", always(value)) for value in ANYTHING],
    *[
        ("candidates", member(count=n))
        for n in (-1, (1 << 24) + 1, "15", 1.0, True, None, 2**70, 0, 9_000)
    ],
    *[("encrypted_splitinfo_host", always(value)) for value in ANYTHING],
    ("encrypted_splitinfo_host", lambda b: b[:-1]),
    ("encrypted_splitinfo_host", lambda b: b[:-256]),
    ("encrypted_splitinfo_host", lambda b: b + b[-256:]),
    ("encrypted_splitinfo_host", lambda b: b[:-256] + b"\0" * 256),
    ("encrypted_splitinfo_host", lambda b: b[:-256] + b"\xff" * 256),
    ("encrypted_splitinfo_host", lambda b: b[:-256] + bytes(range(256))),
    ("encrypted_splitinfo_host", lambda _: OTHER_KEY.public.message(_of_other_key(2))),
    *[("chosen_candidates", always(value)) for value in ANYTHING],
    *[("chosen_candidates", lie) for lie in shapes(np.float64, longer=False)],
    ("chosen_candidates", lambda a: a.astype(np.int32)),
    *[("chosen_candidates", at(0, n)) for n in (-1, 99)],
    *[("dispatch_node_host_result", always(value)) for value in ANYTHING],
    *[("dispatch_node_host_result", lie) for lie in shapes(np.int8)],
    ("dispatch_node_host_result", lambda a: ~a),
    ("dispatch_node_host_result", lambda a: a * 0),
    ("dispatch_node_host_result", lambda a: np.roll(a, 1)),
    *[("host_predict_data", always(value)) for value in ANYTHING],
    *[("host_predict_data", lie) for lie in shapes(np.int8)],
    *[("host_feature_importance", always(value)) for value in ANYTHING],
    *[("host_feature_importance", member(fid=n)) for n in (-1, "0", None)],
    *[("host_feature_importance", member(name=n)) for n in (1, None)],
    *[("host_feature_importance", member(count=n)) for n in (0, -1, 9, "1", None)],
    ("host_feature_importance", lambda v: [*v, {"fid": 9, "name": "z", "count": 1}]),
    ("host_feature_importance", lambda v: [*v, v[0]]),
]


@each(HOST_LIES)
def test_a_guest_refuses_what_a_host_must_not_say(name: str, lie: Any, tmp_path: Path) -> None:
    said = assert_refused(HOST, name, lie, tmp_path)
    assert name in said or name.startswith(("encrypted", "candidates"))


class Sums(NamedTuple):
    """What a host says goes left of a candidate; g as the guest has it, not raised."""

    g: int = 0
    h: int = 0
    rows: int = 0


LAYOUT = SlotLayout(rows=SAMPLED, bits=30)
UNIT = 1 << 30


def packed(federation: Lying, sums: Sums | int) -> bytes:
    """Return the message of a host whose candidates all have these sums."""
    key = federation.key
    assert key is not None
    slot = sums
    if isinstance(sums, Sums):
        first, second, _ = LAYOUT.widths
        slot = (sums.g + sums.rows * UNIT) | sums.h << first | sums.rows << first + second
    assert isinstance(slot, int)
    count, slots = 15, key.slots(LAYOUT.slot_bits)
    numbers = [
        sum(slot << LAYOUT.slot_bits * place for place in range(min(slots, count - start)))
        for start in range(0, count, slots)
    ]
    return key.message(key.body(key.encrypt(numbers)))


@pytest.mark.parametrize(
    ("sums", "sentence"),
    [
        (Sums(rows=SAMPLED + 1), "cannot have"),
        (Sums(g=5 * UNIT + 1, rows=5), "cannot have"),
        (Sums(h=5 * UNIT + 1, rows=5), "cannot have"),
        (Sums(h=1), "cannot have"),
        (Sums(g=1), "cannot have"),
        (Sums(h=19 * UNIT, rows=19), "not sums of the node's rows"),
        (Sums(g=-19 * UNIT, h=0, rows=19), "not sums of the node's rows"),
        (1 << LAYOUT.slot_bits - 1, "no room"),
        (Sums(g=-9 * UNIT // 2, h=9 * UNIT // 4, rows=10), "its rows do not have the sums"),
    ],
)
def test_sums_that_cannot_be_are_refused(sums: Any, sentence: str, tmp_path: Path) -> None:
    federation: Lying
    federation = Lying(HOST, "encrypted_splitinfo_host", lambda _: packed(federation, sums))
    error = error_of(federation, HOST, tmp_path)
    assert isinstance(error, CodecError), error
    assert sentence in str(error)


@pytest.mark.parametrize("slot", [1, 1 << LAYOUT.widths[0]])
def test_sums_that_are_wrong_by_one_are_refused(slot: int, tmp_path: Path) -> None:
    def lie(payload: Any) -> bytes:
        key = federation.key
        assert key is not None
        count, slots = 15, key.slots(LAYOUT.slot_bits)
        added = [
            sum(slot << LAYOUT.slot_bits * place for place in range(min(slots, count - start)))
            for start in range(0, count, slots)
        ]
        true = key.read_rows(key.rows_of(payload, count=len(added)))
        return key.message(key.body(map(key.add, true, key.encrypt(added))))

    federation = Lying(HOST, "encrypted_splitinfo_host", lie)
    error = error_of(federation, HOST, tmp_path)
    assert isinstance(error, CodecError), error
    assert "its rows do not have the sums" in str(error)


@pytest.mark.parametrize("what", ["slots", "number"])
def test_more_than_the_slots_hold_is_refused(what: str, tmp_path: Path) -> None:
    def lie(_: Any) -> bytes:
        key = federation.key
        assert key is not None
        too_much = 1 << 15 * LAYOUT.slot_bits if what == "slots" else (key.n - 1) // 2
        count = -(-15 // key.slots(LAYOUT.slot_bits))
        if what == "number":
            return key.message(key.body(key.encrypt([-1] * count)))
        rest = too_much >> LAYOUT.slot_bits * key.slots(LAYOUT.slot_bits) * (count - 1)
        return key.message(key.body(key.encrypt([0] * (count - 1) + [rest])))

    federation = Lying(HOST, "encrypted_splitinfo_host", lie)
    error = error_of(federation, HOST, tmp_path)
    assert isinstance(error, CodecError), error
    assert ("more than its slots" if what == "slots" else "out of range") in str(error)


@pytest.mark.parametrize("told", [*ANYTHING, {"n": "0x11"}, {"n": hex(2**1024)}, {"n": 5}])
def test_a_host_refuses_a_key_that_is_none(told: Any, tmp_path: Path) -> None:
    error = error_of(Lying(GUEST, "public_key", always(told)), GUEST, tmp_path)
    assert isinstance(error, CodecError | BadParameter), error


# --- anything at all ------------------------------------------------------------------------------

numbers = st.one_of(st.integers(-3, 70), st.integers(), st.booleans(), st.floats(0, 2))
plain = st.recursive(
    st.one_of(st.none(), numbers, st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["rows", "bits", "count", "nodes", "node", "candidates", "tree", "stop", "best"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
arrays = st.builds(
    lambda values, dtype: np.array(values).astype(dtype),
    st.lists(st.integers(-2, 45), max_size=45),
    st.sampled_from([np.int64, np.int32, np.uint8, np.float64, np.bool_]),
)
NAMES = [
    *[(GUEST, name) for name in dict(GUEST_LIES)],
    *[(HOST, name) for name in dict(HOST_LIES)],
]


@settings(max_examples=25, deadline=None)
@given(who=st.sampled_from(NAMES), lie=st.one_of(plain, arrays, st.binary(max_size=40)))
def test_no_value_at_all_breaks_a_party(
    who: tuple[Site, str], lie: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    liar, name = who
    federation = Lying(liar, name, always(lie), patience_s=0.3)
    error = error_of(federation, liar, tmp_path_factory.mktemp("lie"))
    known = (CodecError, BadParameter, BadData, PeerFailed, ValueTooLate)
    assert error is None or isinstance(error, known), (name, lie, error)


# --- what is sent at all --------------------------------------------------------------------------


class Listening(LocalFederation):
    """Keeps what parties send."""

    def __init__(self, sites: Any) -> None:
        super().__init__(sites)
        self.values: list[tuple[Any, Any]] = []

    def _put(self, key: Any, value: Any, size: int) -> None:
        self.values.append((key, value))
        super()._put(key, value, size)

    def of(self, name: str) -> list[Any]:
        """Return the values of a name."""
        return [value for key, value in self.values if key.name == name]


def kind_of(value: Any) -> Any:
    """Return the form of a value: names of members, types of arrays."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}"
    if isinstance(value, dict):
        return {name: kind_of(one) for name, one in value.items()}
    if isinstance(value, list):
        found = [kind for kind in map(kind_of, value) if kind != []]
        assert all(one == found[0] for one in found)
        return [found[0]] if found else []
    return type(value).__name__


TO_HOSTS, TO_GUEST, BOTH_WAYS = "to hosts", "to the guest", "both ways"
EINI_PLAN: dict[str, Any] = {
    "masked": "bool",
    "regions": ["int"],
    "nodes": [[{"node": "int", "first": "int", "middle": "int", "end": "int"}]],
}
KINDS: Mapping[str, tuple[str, list[Any]]] = {
    "sample_ids": (BOTH_WAYS, [{"rows": "int", "digest": "str"}]),
    "callbacks": (
        TO_HOSTS,
        [
            {
                "every": "int",
                "at": [],
                "patience": "int",
                "save_every": "int",
                "parts": ["str"],
                "start": "int",
            }
        ],
    ),
    "classes": (TO_HOSTS, [{"count": "int"}]),
    "public_key": (TO_HOSTS, [{"n": "str"}]),
    "checkpoint_steps": (TO_GUEST, [["str"]]),
    "checkpoint_step": (TO_HOSTS, ["str"]),
    "tree_plan": (
        TO_HOSTS,
        [
            {"rows": "int", "bits": "int", "classes": "int", "alone": "bool"},
            {"rows": "int", "bits": "int"},
        ],
    ),
    "sampled_rows": (TO_HOSTS, ["int64"]),
    "encrypted_grad_and_hess": (TO_HOSTS, ["bytes"]),
    "candidates": (TO_GUEST, [{"count": "int"}]),
    "tree_node_queue": (TO_HOSTS, [{"nodes": "int"}]),
    "node_positions": (TO_HOSTS, ["int32"]),
    "encrypted_splitinfo_host": (TO_GUEST, ["bytes"]),
    "dispatch_node_host": (TO_HOSTS, [[], [{"node": "int", "rows": "int", "candidates": ["int"]}]]),
    "dispatch_rows": (TO_HOSTS, ["int64"]),
    "chosen_candidates": (TO_GUEST, ["int64"]),
    "dispatch_node_host_result": (TO_GUEST, ["uint8"]),
    "stop_flag": (TO_HOSTS, [{"converged": "bool", "stop": "bool", "best": "int"}]),
    "host_feature_importance": (TO_GUEST, [[{"fid": "int", "name": "str", "count": "int"}], []]),
    "guest_predict_data": (
        TO_HOSTS,
        [
            "NoneType",
            [],
            [{"tree": "int", "node": "int", "rows": "int"}],
            EINI_PLAN,
            {**EINI_PLAN, "nodes": []},
        ],
    ),
    "guest_predict_rows": (TO_HOSTS, ["int32"]),
    "host_predict_data": (TO_GUEST, ["uint8"]),
    "guest_position_vec": (TO_HOSTS, ["bytes"]),
    "inter_host_data": (TO_HOSTS, ["bytes"]),
    "host_merge_result": (TO_GUEST, ["bytes"]),
    "host_tree_splits": (TO_HOSTS, [[], [{"node": "int", "candidates": ["int"]}]]),
    "host_tree_leaves": (TO_GUEST, ["int32"]),
    "host_leaves": (TO_GUEST, ["int32"]),
}


def test_parties_send_what_the_documentation_lists_and_nothing_else(tmp_path: Path) -> None:
    data = data_of(rows=50, widths={GUEST: 2, HOST: 2, HOST_2: 2})
    stopping = {
        "callbacks": ["EarlyStopping", "ModelCheckpoint"],
        "validation_freqs": 1,
        "early_stopping_rounds": 5,
    }
    stored = {site: MemoryCheckpoints() for site in data.tables}
    left = {site: MemoryCheckpoints() for site in data.tables}
    common: dict[str, Any] = {
        "ports": {"train_data": data, "validate_data": rows_of(data, slice(0, 20))},
        "callback_param": stopping,
        "run_goss": True,
    }
    run(data, tmp_path / "1", checkpoints=stored, **common)
    for site, store in left.items():
        store.save(0, "round_0", stored[site].load(0).model)
    heard = Listening(tuple(data.tables))
    models = models_of(
        run(data, tmp_path / "2", federation=heard, task_version=1, checkpoints=left, **common)
    )
    later = Listening(tuple(data.tables))
    run(data, tmp_path / "3", ports={"test_data": data}, models=models, federation=later)
    mixed = Listening(tuple(data.tables))
    in_turns = {"boosting_strategy": "mix", "num_trees": 3}
    whole = models_of(run(data, tmp_path / "4", federation=mixed, **common, **in_turns))
    mixed_later = Listening(tuple(data.tables))
    run(data, tmp_path / "5", ports={"test_data": data}, models=whole, federation=mixed_later)
    eini = Listening(tuple(data.tables))
    one_trip: dict[str, Any] = {"federation": eini, "EINI_inference": True}
    run(data, tmp_path / "6", ports={"test_data": data}, models=models, **one_trip)
    jobs = (heard, later, mixed, mixed_later, eini)
    sent = [one for job in jobs for one in job.values]
    assert documented() == set(KINDS) == {key.name for key, _ in sent}
    ways: dict[str, set[str]] = {}
    for key, value in sent:
        kinds = KINDS[key.name][1]
        assert kind_of(value) in kinds, key.name
        ways.setdefault(key.name, set()).add(TO_GUEST if key.destination is GUEST else TO_HOSTS)
    for name, (way, _) in KINDS.items():
        assert ways[name] == ({TO_HOSTS, TO_GUEST} if way is BOTH_WAYS else {way}), name
    ciphertexts = [
        value[24 + at : 24 + at + 256]  # after the header
        for key, value in sent
        if isinstance(value, bytes) and key.destination is not HOST_2
        for at in range(0, len(value) - 24, 256)
    ]
    assert {len(one) for one in ciphertexts} == {256}
    assert len(set(ciphertexts)) == len(ciphertexts), "each has a blinding of its own"


def documented() -> set[str]:
    """Return the messages of the table in docs/security.md."""
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
    section = text.split("## HeteroSecureBoost: what each party learns")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


# --- trees that a host grows alone ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("liar", "name", "lie"),
    [
        (GUEST, "host_tree_splits", always([{"node": 3, "candidates": [0]}])),
        (GUEST, "host_tree_splits", always([{"node": 0, "candidates": []}])),
        (GUEST, "host_tree_splits", always([{"node": 0, "candidates": [10**6]}])),
        (GUEST, "host_tree_splits", always([{"node": 0, "candidates": [0]}] * 2)),
        (GUEST, "host_tree_splits", always({"node": 0})),
        (HOST, "chosen_candidates", always(np.array([10**6]))),
        (HOST, "chosen_candidates", always(np.zeros(3, dtype=np.int64))),
        (HOST, "host_tree_leaves", always(np.zeros((1, ROWS), dtype=np.int32))),
        (HOST, "host_tree_leaves", lambda leaves: leaves[:, 1:].copy()),
        (HOST, "host_tree_leaves", lambda leaves: leaves.astype(np.int64)),
        (HOST, "host_tree_leaves", lambda leaves: np.full_like(leaves, 10**6)),
        (HOST, "host_tree_leaves", lambda leaves: leaves[:, ::-1].copy()),
        (HOST, "host_leaves", lambda leaves: np.full_like(leaves, -1)),
        (HOST, "host_leaves", np.zeros_like),
        (HOST, "host_leaves", always("leaves")),
    ],
)
def test_lies_about_a_tree_that_a_host_grows_are_refused(
    liar: Site, name: str, lie: Callable[[Any], Any], tmp_path: Path
) -> None:
    federation = Lying(liar, name, lie)
    victim = HOST if liar is GUEST else GUEST
    params = {**PARAMS, "boosting_strategy": "mix", "num_trees": 2, "run_goss": False}
    error = run(DATA, tmp_path, ports=PORTS, federation=federation, **params)[victim].error
    assert federation.lied
    assert isinstance(error, CodecError), error
