"""The drawing of a version's history."""

from __future__ import annotations

from fedflow.board.presenters.model_history import HEIGHT, MOST, WIDTH, HistoryItem, draw


def item(name: str, *of: str) -> HistoryItem:
    return HistoryItem(name=name, title="t", detail=name, of=of)


def test_columns_stand_beside_each_other_and_are_joined() -> None:
    drawing = draw([[item("job")], [item("v", "job")], [], [item("p1", "v"), item("p2", "v")]])
    places = {box.item.name: (box.x, box.y) for box in drawing.boxes}
    assert places["job"][0] < places["v"][0] < places["p1"][0] == places["p2"][0]
    assert places["p1"][1] + HEIGHT < places["p2"][1]
    assert len(drawing.paths) == 3
    assert drawing.left_out == 0


def test_every_box_is_inside_the_view() -> None:
    many = [item(f"c{n}", "v") for n in range(MOST + 3)]
    drawing = draw([[item("v")], many])
    assert drawing.left_out == 3
    assert all(0 <= box.x <= drawing.width - WIDTH for box in drawing.boxes)
    assert all(0 <= box.y <= drawing.height - HEIGHT for box in drawing.boxes)


def test_a_source_without_a_box_has_no_path() -> None:
    assert draw([[item("v", "elsewhere")]]).paths == []


def test_nothing_is_an_empty_drawing() -> None:
    drawing = draw([[], []])
    assert (drawing.boxes, drawing.width, drawing.height) == ([], 0, 0)
