"""What docs/reference/serving-extensions.md shows is installed as it stands there, and works."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from fedflow.base.decoding import decode_as
from fedflow.base.errors.serving_process import BadServingSetting, HookNotUsable
from fedflow.serving.codes import ItemAnswer, failed
from fedflow.serving.hooks.service_hooks import hooks_of
from fedflow.serving.partners.partner_parts import OnlineRow
from fedflow.serving.services.service_options import HookUse, ServiceOptions
from fedflow.serving.sources.source import FeatureFault, open_feature_source
from tests.unit.docs.markdown import ROOT

PAGE = (ROOT / "docs/reference/serving-extensions.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the modules of the page and their entry points where Python finds them."""
    names = re.findall(r"^A module `(\w+)\.py`", PAGE, re.MULTILINE)
    modules = blocks("python")
    for name, text in zip(names, modules, strict=True):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    info = tmp_path / "example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    lines = []
    for text in blocks("toml"):
        for group, points in tomllib.loads(text)["project"]["entry-points"].items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("_installed")
def test_the_source_of_the_page_is_found_and_gives_features() -> None:
    settings = yaml.safe_load(blocks("yaml")[0])["features"]
    source = open_feature_source(settings["source"], settings["options"])
    assert source.id_names == {"day"}
    items = source.find([{"day": "2026-11-28"}, {"day": "x"}, {}], deadline_s=1e12)
    assert items[0] == {"month": 11, "x7": True}
    assert [one.retcode for one in items[1:] if isinstance(one, FeatureFault)] == [102, 102]
    with pytest.raises(BadServingSetting, match="known are id and weekend") as caught:
        open_feature_source("calendar", {"x": 1}, path="guest_features")
    assert caught.value.fields["path"] == "guest_features.options"


@pytest.mark.usefixtures("_installed")
def test_the_hooks_of_the_page_are_found_and_work() -> None:
    options = decode_as(blocks("json")[0], ServiceOptions)
    given = [
        OnlineRow(request_id="r", features={"income": 3000}, ids={"phone": "+49 (30) 1-2"}),
        OnlineRow(request_id="r", features={}, ids={"phone": "none"}),
    ]
    with closing(hooks_of(options)) as hooks:
        row, refused = hooks.before(given, partner_ids=("phone",))
        assert isinstance(row, OnlineRow)
        assert row.ids == {"phone": "493012"}
        assert refused == failed(140, "the hook phone_form: a phone number is needed")
        answers = hooks.after([row, row], [ItemAnswer(score=0.25), ItemAnswer(score=0.9)])
    assert [one.more for one in answers] == [{"largestLoan": 20_000}, {"largestLoan": 3_000}]
    with pytest.raises(HookNotUsable) as caught:
        hooks_of(ServiceOptions(after=(HookUse(hook="largest_loan"),)))
    assert caught.value.fields["path"] == "after[0].options.most"
