"""Pages are easy to read, but for those still listed; and the check sees what it should."""

from __future__ import annotations

from tests.unit.docs.language import LISTED, findings, pages
from tests.unit.docs.markdown import anchors, cells, sentences, words


def test_pages_have_short_sentences_cells_and_lines() -> None:
    listed = set(LISTED.read_text(encoding="utf-8").splitlines())
    hard = {page: found for page in pages() if (found := list(findings(page)))}
    assert [one for page in hard.keys() - listed for one in hard[page]] == []
    gone = listed - hard.keys()
    assert gone == set(), f"python -m tests.unit.docs.language --list > {LISTED.name}"


def test_sentences_end_at_dots_and_blocks_and_code_is_one_word() -> None:
    text = (
        "# A title\n\nOne two. Three `a.b c` [four](x.md)!\n\n- five\n  six\n- seven e.g. Eight\n"
    )
    found = [sentence for _, sentence in sentences(text)]
    assert found[0] == "One two."
    assert [words(sentence) for sentence in found] == [2, 3, 2, 3]


def test_code_blocks_and_tables_are_no_sentences() -> None:
    text = "```sh\nfedflow job list | cat\n```\n\n| a | b |\n|---|---|\n| c [d](e.md) | f\\|g |\n"
    assert list(sentences(text)) == []
    assert [cell for _, cell in cells(text)] == ["a", "b", "c d", "f\\|g"]


def test_headings_get_the_anchors_of_github() -> None:
    text = "# One `two`\n## What's it: a/b?\n## One two\n```\n# none\n```\n"
    assert anchors(text) == {"one-two", "whats-it-ab", "one-two-1"}
