"""The history of a model: commits, their graph, branches, tags, pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from fedflow.domain.models.history import Author, BranchKey, CommitNote, Move, MoveKind
from fedflow.domain.models.model import ModelVersion
from tests.board.jobs_to_submit import Person
from tests.board.places import NARROW, Place, Visitor, check_fits, serving, shoot
from tests.board.seeds import GUEST, START_MS
from tests.board.version_seeds import CONF, DSL, MODEL_ID, put_version, version

pytestmark = pytest.mark.timeout(600)
expect.set_options(timeout=60_000)

PATH = "/board/models/guest-9999~host-10000~model/history"
ODD = "<script>alert(1)</script>"


def began_with(number: int, parent: ModelVersion) -> ModelVersion:
    """Return a training that began with the model of another version."""
    loader = {"model_id": MODEL_ID, "model_version": parent.key.model_version}
    parameters = {**CONF["component_parameters"], "common": {"load_0": loader}}
    return version(
        number,
        train_dsl={"components": {**DSL["components"], "load_0": {"module": "ModelLoader"}}},
        train_conf={**CONF, "component_parameters": parameters},
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A first version, two that began with it, one of which is deployed; and 60 without parents."""
    with serving(tmp_path_factory.mktemp("commits")) as place:
        first = version(101)
        left, right = began_with(102, first), began_with(103, first)
        descent = {
            "parent_model_id": MODEL_ID, "parent_model_version": left.key.model_version,
        }  # fmt: skip
        deployed = version(104, parent=False, parent_info=descent)
        for one in (first, left, right, deployed, *(version(n) for n in range(60))):
            put_version(place, one)
        with place.store.transaction() as tx:
            note = CommitNote(
                key=right.key, id="a", message=f"smaller steps {ODD}",
                author=Author(party_id="9999", person="ann"), shares={}, created_ms=START_MS,
            )  # fmt: skip
            assert tx.model_history.put_note(note)
            key = BranchKey(site=GUEST, model_id=MODEL_ID, name="release")
            move = Move(
                key=key, number=1, id="b", kind=MoveKind.CREATE,
                model_version=deployed.key.model_version, author=Author(party_id="9999"),
                message="goes live", created_ms=START_MS,
            )  # fmt: skip
            assert tx.model_history.add_move(move)
        place.services.models.tags.attach("golden", right.key.model_version)
        yield place


def test_commits_are_paged_and_texts_stay_texts(place: Place) -> None:
    person = Person(place.url)
    first = person.get(PATH).text
    assert ODD not in first
    assert "smaller steps &lt;script&gt;" in first
    assert first.count('class="graph"') == 40
    older = first.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    second = person.get(older).text
    assert second.count('class="graph"') == 24
    assert 'rel="next"' not in second
    assert "Newest" in second


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/board/models/none/history", 404),
        (f"{PATH}?of=branch:none", 404),
        (f"{PATH}?after=nonsense", 400),
        (f"{PATH}?site=nonsense", 404),
    ],
)
def test_what_is_not_there_is_an_error_page(place: Place, path: str, status: int) -> None:
    assert Person(place.url).get(path).status_code == status


@pytest.mark.browser
def test_the_graph_has_lanes_marks_and_a_way_to_branches(
    place: Place, visit: Callable[..., Visitor], axe: Callable[[Page], None]
) -> None:
    visitor = visit(place)
    page = visitor.open(PATH)
    rows = page.locator("#commits tbody tr")
    expect(rows).to_have_count(40)
    expect(rows.nth(0)).to_contain_text("release")
    expect(rows.nth(0)).to_contain_text("deployed")
    expect(rows.nth(1)).to_contain_text("golden")
    expect(rows.nth(1)).to_contain_text("smaller steps")
    expect(rows.nth(1)).to_contain_text("ann")
    marks = [float(rows.nth(n).locator("circle").get_attribute("cx") or 0) for n in range(4)]
    assert marks[0] == marks[2] < marks[1] == marks[3]
    axe(page)
    shoot(visitor, page, "model-commits")
    page.locator("#branches").get_by_role("link", name="release").click()
    expect(rows).to_have_count(3)
    expect(page.get_by_text("Only what leads to branch:release")).to_be_visible()
    axe(page)
    page.get_by_role("link", name="All commits").click()
    expect(rows).to_have_count(40)
    visitor.sized(NARROW)
    check_fits(page)
    axe(page)


@pytest.mark.browser
def test_the_history_is_found_from_a_version_and_read_in_chinese(
    place: Place, visit: Callable[..., Visitor], axe: Callable[[Page], None]
) -> None:
    visitor = visit(place, locale="zh-CN", color_scheme="dark")
    number = version(101).key.model_version
    page = visitor.open(f"/board/models/guest-9999~host-10000~model/{number}")
    page.get_by_role("link", name="此模型的全部版本与分支").click()
    expect(page.get_by_role("heading", name="模型的历史")).to_be_visible()
    axe(page)
