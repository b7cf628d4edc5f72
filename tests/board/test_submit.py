"""The submit page without scripts: mistakes, files, copies, and that a form is one job."""

from __future__ import annotations

import html
import json
import re

import pytest

from fedflow.domain.records import JobFilter
from tests.board import seeds
from tests.board.jobs_to_submit import Person, empty_conf, empty_dsl, mistakes, text_of
from tests.board.places import Place

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def person(seeded: Place) -> Person:
    return Person(seeded.url)


def jobs(place: Place) -> int:
    return len({job.key.job_id for job in place.services.jobs.find(JobFilter())})


def test_a_job_is_submitted_and_its_page_is_shown(person: Person, seeded: Place) -> None:
    answer = person.send(empty_dsl(), empty_conf())
    assert answer.status_code == 303
    place = answer.headers["Location"]
    assert re.fullmatch(r"/board/jobs/\d+/guest/9999", place)
    page = person.get(place)
    assert page.status_code == 200
    assert "was submitted" in page.text


def test_a_form_that_is_sent_twice_is_one_job(person: Person, seeded: Place) -> None:
    hidden, before = person.opened(), jobs(seeded)
    first, second = (person.send(empty_dsl(), empty_conf(), hidden=hidden) for _ in range(2))
    assert first.headers["Location"] == second.headers["Location"]
    assert jobs(seeded) == before + 1


def test_a_form_that_was_changed_after_it_was_sent_asks_again_under_a_new_key(
    person: Person, seeded: Place
) -> None:
    hidden = person.opened()
    job_id = person.send(empty_dsl(), empty_conf(), hidden=hidden).headers["Location"].split("/")[3]
    changed = empty_conf(task_parallelism=2)
    answer = person.send(empty_dsl(), changed, hidden=hidden)
    assert answer.status_code == 409
    assert "IdempotencyKeyReused" in answer.text
    assert f'href="/board/jobs/{job_id}"' in answer.text
    fresh = re.search(r'name="key" value="([^"]+)"', answer.text)
    assert fresh
    assert fresh.group(1) != hidden["key"]
    again = person.send(empty_dsl(), changed, hidden={**hidden, "key": fresh.group(1)})
    assert again.status_code == 303


def test_all_mistakes_are_told_at_once_and_the_text_is_kept(person: Person) -> None:
    dsl = empty_dsl()
    dsl["components"]["first"]["module"] = "Emty"
    dsl["components"]["second"]["input"]["data"]["data"] = ["nobody.data"]
    conf = empty_conf()
    del conf["role"]["guest"]
    answer = person.send(dsl, conf)
    assert answer.status_code == 400
    told = mistakes(answer.text)
    assert len(told) == 3
    assert told[0].startswith("DSL, line 4, column 7 $.dsl.components.first.module")
    assert "nobody" in told[1]
    assert told[2].startswith("conf, line")
    assert json.loads(html.unescape(text_of(answer.text, "dsl"))) == dsl
    assert json.loads(html.unescape(text_of(answer.text, "conf"))) == conf


def test_a_job_that_was_refused_is_not_said_to_be_without_mistakes(
    person: Person, seeded: Place
) -> None:
    hidden = person.opened()
    person.send(empty_dsl(), empty_conf(), hidden=hidden)
    answer = person.send(empty_dsl(), empty_conf(task_parallelism=2), hidden=hidden)
    assert "IdempotencyKeyReused" in answer.text
    assert "No mistakes found" not in answer.text


def test_wrong_parameters_are_told_with_the_sites_that_they_are_for(person: Person) -> None:
    conf = empty_conf({"first": {"sleep_s": -1, "nonsense": 2}})
    told = mistakes(person.send(empty_dsl(), conf, do="check").text)
    assert len(told) == 2
    assert all("guest 9999, host 10000" in one for one in told)
    assert all(one.startswith("conf, line") for one in told)


@pytest.mark.parametrize(
    ("dsl", "sentence"),
    [
        ("", "There is no text yet"),
        ('{"components": {},}', "comma after the last member"),
        ('{"components": NaN}', "NaN is no number"),
        ('{"components": {"a": 1, "a": 2}}', "is used twice"),
        ("[" * 5_000, "deeper than"),
        ('{"components": ' + '{"a":' * 60 + "1" + "}" * 60 + "}", "nested deeper"),
        ('{"components": {"a": "' + "x" * 200_000 + '"}}', "longer than"),
        ('{"a": 1e999}', "finite"),
        ("not json at all", "not is no value"),
        ('{"\ud7ff": "\\ud800"}', "surrogate"),
    ],
)
def test_a_text_that_cannot_be_read_is_told_and_never_submitted(
    person: Person, seeded: Place, dsl: str, sentence: str
) -> None:
    before = jobs(seeded)
    answer = person.send(dsl, empty_conf())
    assert answer.status_code in (400, 413)
    assert any(sentence in one for one in mistakes(answer.text)), mistakes(answer.text)
    assert jobs(seeded) == before


def test_a_text_of_one_million_characters_is_taken_and_checked(person: Person) -> None:
    dsl = empty_dsl(tuple(f"component_{i}" for i in range(4_000)))
    text = json.dumps(dsl, indent=4)
    assert len(text) > 1_000_000
    answer = person.send(text, empty_conf(), do="check")
    assert answer.status_code == 200
    assert "No mistakes found" in answer.text


def test_a_text_that_is_longer_than_the_page_takes_is_refused_and_kept(person: Person) -> None:
    answer = person.send('"' + "x" * (2 * 1024 * 1024) + '"', empty_conf())
    assert answer.status_code == 400
    assert "more than 2097152 characters" in mistakes(answer.text)[0]


def test_hostile_texts_are_shown_as_texts(person: Person) -> None:
    for text in seeds.HOSTILE:
        dsl = {"components": {text: {"module": text, "input": {text: text}}}}
        conf = empty_conf()
        conf["role"][text] = [text]
        conf[text] = text
        for chosen in ("send", "check"):
            page = person.send(dsl, conf, do=chosen).text
            assert "<script>document" not in page
            assert "<img src=x" not in page
            assert "<script>alert" not in page
    assert (
        "There is no example" in person.get("/board/submit?example=<script>alert(1)</script>").text
    )
    assert "<script>alert" not in person.get("/board/submit?example=<script>alert(1)</script>").text


def test_examples_can_be_started_from_and_lack_nothing_but_their_tables(person: Person) -> None:
    names = re.findall(r'href="/board/submit\?example=([^"]+)"', person.get("/board/submit").text)
    assert {"hetero_lr", "scorecard"} <= set(names)
    for name in names:
        page = person.get(f"/board/submit?example={name}").text
        told = mistakes(page)
        assert told
        assert all(one.endswith("TableNotFound") for one in told)


def test_the_page_shows_what_each_site_gets(person: Person) -> None:
    page = person.get("/board/submit?example=hetero_lr").text
    shares = page[page.index('id="shares"') :]
    assert "experiment.breast_hetero_guest" in shares
    assert "experiment.breast_hetero_host" in shares
    graph = re.search(r'<ff-dag[^>]* graph="([^"]+)"', page)
    assert graph
    drawn = json.loads(html.unescape(graph.group(1)))
    assert drawn["nodes"][0]["name"] == "reader_0"
    assert len(drawn["edges"]) == 4


def test_files_are_opened_whichever_they_are(person: Person) -> None:
    dsl, conf = json.dumps(empty_dsl(), indent=1), json.dumps(empty_conf(), indent=1)
    both = json.dumps({"job_dsl": empty_dsl(), "job_runtime_conf": empty_conf()}, indent=1)
    for given in ([("a.json", conf), ("b.json", dsl)], [("both.json", both)]):
        files = [("files", one) for one in given]
        page = person.send("old", "", do="open", files=files).text
        assert json.loads(html.unescape(text_of(page, "dsl"))) == empty_dsl()
        assert json.loads(html.unescape(text_of(page, "conf"))) == empty_conf()
        assert "No mistakes found" in page


def test_a_file_of_both_is_taken_as_it_is_written(person: Person) -> None:
    both = '{\n  "dsl": {\n    "components": {"a": 1.50}\n  },\n  "runtime_conf": {}\n}\n'
    page = person.send("", "", do="open", files=[("files", ("x.json", both))]).text
    assert html.unescape(text_of(page, "dsl")) == '{\n  "components": {"a": 1.50}\n}\n'


def test_files_that_are_none_are_told(person: Person) -> None:
    for content, sentence in (
        (b"\xff\xfe\x00", "is no UTF-8 text"),
        (b"x" * (9 * 1024 * 1024), "is no UTF-8 text of at most 2 MiB"),
        (b"[1, 2]", "is neither a DSL nor a conf"),
    ):
        files = [("files", ("<b>x</b>.json", content))]
        page = person.send("", "", do="open", files=files).text
        assert sentence in page
        assert "<b>x</b>" not in page
    assert "Choose a file first" in person.send("", "", do="open").text


def test_a_copy_shows_what_was_changed(person: Person) -> None:
    conf = empty_conf({"first": {"sleep_s": 0}}, idempotency_key="the-first-one")
    job_id = person.send(empty_dsl(), conf).headers["Location"].split("/")[3]
    page = person.get(f"/board/submit?from={job_id}").text
    assert "Its idempotency key was left out" in page
    copied = json.loads(html.unescape(text_of(page, "conf")))
    assert "idempotency_key" not in copied["job_parameters"]["common"]
    assert 'id="no-changes"' in page
    copied["component_parameters"]["common"]["first"]["sleep_s"] = 0.25
    hidden = {**person.opened(), "from": job_id}
    looked = person.send(empty_dsl(), copied, do="check", hidden=hidden).text
    changes = looked[looked.index('id="changes"') :]
    assert "$.conf.component_parameters.common.first.sleep_s" in changes
    assert (
        changes.count('scope="row"') - changes[changes.index("</table>") :].count('scope="row"')
        == 1
    )
    again = person.send(empty_dsl(), copied, hidden=hidden)
    assert again.status_code == 303
    assert job_id not in again.headers["Location"]


def test_a_job_that_another_server_initiated_cannot_be_copied_and_the_page_says_why(
    person: Person, seeded: Place
) -> None:
    host = seeds.job(77, key=seeds.JobKey(job_id=seeds.job_id(77), site=seeds.HOST))
    seeds.put(seeded.store, host)
    page = person.get(f"/board/submit?from={seeds.job_id(77)}")
    assert page.status_code == 200
    assert "was initiated by guest 9999, at another server" in page.text
    assert text_of(page.text, "conf").strip() == ""
    assert person.get("/board/submit?from=none").status_code == 404


def test_a_job_that_needs_more_than_there_is_is_refused_before_it_is_sent(person: Person) -> None:
    told = mistakes(person.send(empty_dsl(), empty_conf(task_cores=1000), do="check").text)
    assert len(told) == 1
    assert "1000" in told[0]
    assert "NotEnoughResources" in told[0]


def test_a_job_of_format_1_is_understood(person: Person) -> None:
    dsl = {"components": {"empty_0": {"module": "Empty"}}}
    conf = {
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "job_parameters": {"work_mode": 1},
        "role_parameters": {},
        "algorithm_parameters": {},
    }
    page = person.send(dsl, conf, do="check").text
    assert mistakes(page) == []
    assert "format 1" in page


def test_the_parties_of_a_standalone_server_are_all_here(person: Person) -> None:
    page = person.send(empty_dsl(), empty_conf(), do="ask").text
    assert "no other party needs to be asked" in page


def test_a_form_without_its_token_is_refused(person: Person, seeded: Place) -> None:
    before = jobs(seeded)
    hidden = {**person.opened(), "csrf": "x"}
    assert person.send(empty_dsl(), empty_conf(), hidden=hidden).status_code in (400, 401, 403)
    assert jobs(seeded) == before
