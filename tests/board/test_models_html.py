"""The tab of a component's model over HTTP: what each party's page says, and what it never says."""

from __future__ import annotations

import csv
import io
import re
from html import unescape

import pytest
import requests

from fedflow.domain.site import Site
from tests.board import real_models
from tests.board.model_seeds import add_attempts, add_share, model_path, put_model
from tests.board.places import Place
from tests.board.real_models import ARBITER, EVERY, GUEST, GUEST_MARK, HOST, HOST_MARK
from tests.board.seeds import CHAIN, HOSTILE, dsl, job, put, task

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
NUMBERS = {name: 100 + number for number, name in enumerate(EVERY)}


@pytest.fixture(scope="module")
def models(seeded: Place) -> Place:
    """The server, with a job for every kind of model."""
    for name, number in NUMBERS.items():
        put_model(seeded, number, EVERY[name]())
    return seeded


def get(place: Place, path: str) -> requests.Response:
    return requests.get(place.url + path, timeout=CALL_S)


def page(place: Place, name: str, site: Site, query: str = "") -> str:
    answer = get(place, model_path(NUMBERS[name], site) + query)
    assert answer.status_code == 200, answer.text
    return unescape(answer.text)


@pytest.mark.parametrize("name", EVERY)
def test_no_answer_has_what_the_other_party_keeps(models: Place, name: str) -> None:
    made = EVERY[name]()
    number = NUMBERS[name]
    for site in made.models:
        asked = [
            "model", "model?party=1&stage=transform", "model.json", "model/map?map=own",
            "model/map?map=across", "parameters", "metrics",
        ]  # fmt: skip
        first = get(models, model_path(number, site)).text
        tables = set(re.findall(r"table=([\w-]+)", first))
        asked += [f"model/table.csv?table={one}" for one in tables]
        for tab in asked:
            text = get(models, model_path(number, site, tab)).text
            if site != GUEST:
                assert GUEST_MARK not in text, (site, tab)
            if site != HOST:
                assert HOST_MARK not in text, (site, tab)


def test_a_host_page_of_bins_has_no_statistics_of_labels(models: Place) -> None:
    stored = real_models.binning().models[GUEST].param["host_results"][0]["binning_result"]
    texts = [page(models, "binning", HOST), get(models, model_path(100, HOST, "model.json")).text]
    for column in stored.values():
        for value in (*column["woe_array"], column["iv"]):
            for text in texts:
                assert f"{value:.6g}" not in text
                assert repr(value) not in text


def test_a_guest_page_has_no_split_points_of_a_host(models: Place) -> None:
    stored = real_models.binning().models[HOST].param["binning_result"]["binning_result"]
    texts = [
        page(models, "binning", GUEST, "?party=1"),
        get(models, model_path(100, GUEST, "model.json")).text,
    ]
    for column in stored.values():
        for cut in column["split_points"]:
            for text in texts:
                assert f"{cut:.6g}" not in text
                assert repr(cut) not in text


def test_an_arbiter_gets_a_notice_and_no_file(models: Place) -> None:
    text = page(models, "logistic", ARBITER)
    assert "An arbiter has no part" in text
    number = NUMBERS["logistic"]
    assert "loss" not in get(models, model_path(number, ARBITER, "model.json")).text
    assert get(models, model_path(number, ARBITER, "model.json")).status_code == 404


def test_keys_are_in_no_answer(models: Place) -> None:
    cipher = real_models.in_shares().models[GUEST].param["cipher"]["private_key"]
    for tab in ("model", "model.json"):
        text = get(models, model_path(NUMBERS["in_shares"], GUEST, tab)).text
        assert cipher["p"] not in text
        assert cipher["q"] not in text
    assert "private" not in text


def test_the_file_of_a_model_has_the_names_of_the_api(models: Place) -> None:
    answer = get(models, model_path(NUMBERS["logistic"], GUEST, "model.json"))
    assert answer.headers["Content-Disposition"] == "attachment; filename=model_0_model.json"
    found = answer.json()
    assert found["module"] == "HeteroLR"
    assert found["param"]["isConverged"] is False
    assert next(iter(found["param"]["weight"])) == f"{GUEST_MARK}_income"


def test_a_table_is_downloaded_whole(models: Place) -> None:
    path = model_path(NUMBERS["logistic"], GUEST, "model/table.csv?table=weights")
    answer = get(models, path)
    assert answer.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows[0] == ["Feature", "Weight"]
    assert len(rows) == 5
    assert get(models, path.replace("weights", "nothing")).status_code == 404


def test_the_data_of_a_map_are_rounded_numbers(models: Place) -> None:
    found = get(models, model_path(NUMBERS["pearson"], GUEST, "model/map?map=own")).json()
    assert found["rows"] == found["columns"]
    assert found["values"][0][0] == 1.0
    assert get(models, model_path(NUMBERS["pearson"], GUEST, "model/map?map=x")).status_code == 404


def test_links_of_a_table_keep_what_else_was_chosen(models: Place) -> None:
    text = page(models, "binning", GUEST, "?party=1&features-find=x1")
    assert 'href="?' not in text
    links = [link for link in re.findall(r'href="([^"]+)"', text) if "features-sort" in link]
    assert links
    assert all("party=1" in link and "features-find=x1" in link for link in links)
    assert "host_10000_x1" in text
    assert "host_10000_x2</a>" not in text


def test_hostile_names_in_a_model_are_texts(seeded: Place) -> None:
    weights = {text: 0.5 + i for i, text in enumerate(HOSTILE)}
    param = {"weight": weights, "header": list(weights), "intercept": 1.0, "iters": 3}
    add_share(
        seeded, 300, GUEST, "HeteroLR", param_name="HeteroLogisticRegressionParam", param=param
    )
    bins = {
        text: {"split_points": [1.0, 2.0], "bin_nums": 2, "woe_array": [0.1, -0.2], "iv": 0.3,
               "event_count_array": [1, 2], "non_event_count_array": [3, 4]}
        for text in HOSTILE
    }  # fmt: skip
    binned = {"binning_result": {"binning_result": bins}, "header": list(bins)}
    add_share(seeded, 301, GUEST, "B", param_name="FeatureBinningParam", param=binned)
    correlated = {"names": list(HOSTILE), "local_corr": [0.5] * len(HOSTILE) ** 2}
    add_share(seeded, 302, GUEST, "P", param_name="HeteroPearsonModelParam", param=correlated)
    unknown = {"weird": dict.fromkeys(HOSTILE, HOSTILE[0])}
    add_share(seeded, 303, GUEST, "U", param_name="Unknown<script>", param=unknown)
    for number in (300, 301, 302, 303):
        raw = get(seeded, model_path(number, GUEST)).text
        assert "<script>document" not in raw
        assert "<img src=x" not in raw
        assert "</script><script>alert" not in raw
        assert "x" * 2500 not in re.sub(r'title="[^"]*"|href="[^"]*"|value="[^"]*"', "", raw)
        assert "owned" in raw


def test_hostile_choices_of_an_address_are_texts_or_nothing(models: Place) -> None:
    for text in HOSTILE:
        query = {"party": text, "feature": text, "label": text, "features-find": text,
                 "features-sort": text, "features-page": text, "stage": text}  # fmt: skip
        answer = requests.get(
            models.url + model_path(NUMBERS["binning"], GUEST), params=query, timeout=CALL_S
        )
        assert answer.status_code == 200
        assert "<script>document" not in answer.text
        assert "<img src=x" not in answer.text


def test_a_component_without_a_model_says_so(seeded: Place) -> None:
    of = job(310, dsl=dsl(CHAIN))
    put(seeded.store, of, task(of, "dataio_0", "DataTransform"))
    text = get(seeded, model_path(310, GUEST, component="dataio_0")).text
    assert "stored no model" in text
    assert get(seeded, model_path(310, GUEST, "model.json", "dataio_0")).status_code == 404


def test_twenty_thousand_weights_are_one_short_page(seeded: Place) -> None:
    weights = {f"feature_{i:05}": i / 7 for i in range(20_000)}
    param = {"weight": weights, "header": list(weights), "iters": 1}
    add_share(
        seeded, 311, HOST, "HeteroLR", param_name="HeteroLogisticRegressionParam", param=param
    )
    answer = get(seeded, model_path(311, HOST) + "?weights-sort=-1")
    assert answer.text.count("<tr>") < 40
    assert "feature_19999" in answer.text
    assert len(answer.text) < 100_000


def test_the_model_of_each_attempt_is_shown_and_named(seeded: Place) -> None:
    number = 190
    add_attempts(seeded, number, {0: 0.125, 2: 0.375}, count=4)
    path = model_path(number, GUEST)
    latest = get(seeded, path).text
    assert "This is the model of attempt 2, the latest one that stored a model." in latest
    assert "0.375" in latest
    assert "0.125" not in latest
    choice = latest.split('aria-label="Attempts that stored a model"')[1].split("</nav>")[0]
    assert re.findall(r'href="([^"]+)"( aria-current="true")?', choice) == [
        (f"{path}?attempt=2", ' aria-current="true"'), (f"{path}?attempt=0", ""),
    ]  # fmt: skip
    first = get(seeded, f"{path}?attempt=0").text
    assert "This is the model of attempt 0." in first
    assert "0.125" in first
    assert "0.375" not in first
    assert f"{model_path(number, GUEST, 'model.json')}?attempt=0" in first
    for attempt, weight in ((0, 0.125), (2, 0.375)):
        answer = get(seeded, f"{model_path(number, GUEST, 'model.json')}?attempt={attempt}")
        assert answer.json()["param"]["weight"] == {"x0": weight}
    none = get(seeded, f"{path}?attempt=1").text
    assert "Attempt 1 stored no model at this site." in none
    assert "0.125" not in none
    assert "0.375" not in none
    assert 'aria-label="Attempts that stored a model"' in none
    assert get(seeded, f"{model_path(number, GUEST, 'model.json')}?attempt=1").status_code == 404


def test_one_attempt_that_stored_a_model_needs_no_choice(seeded: Place) -> None:
    add_attempts(seeded, 191, {0: 0.125}, count=1)
    add_attempts(seeded, 192, {1: 0.25}, count=2)
    alone = get(seeded, model_path(191, GUEST)).text
    retried = get(seeded, model_path(192, GUEST)).text
    for text in (alone, retried):
        assert "Attempts that stored a model" not in text
    assert "This is the model" not in alone
    assert "This is the model of attempt 1." in retried
