"""Jobs that tests of the board submit: Empty components, which need no data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

CALL_S = 60.0


def empty_dsl(names: tuple[str, ...] = ("first", "second")) -> dict[str, Any]:
    """Return a chain of Empty components."""
    components: dict[str, Any] = {}
    for i, name in enumerate(names):
        components[name] = {"module": "Empty", "output": {"data": ["data"]}}
        if i:
            components[name]["input"] = {"data": {"data": [f"{names[i - 1]}.data"]}}
    return {"components": components}


def empty_conf(
    parameters: Mapping[str, Any] | None = None, **job_parameters: Any
) -> dict[str, Any]:
    """Return a conf of a guest and a host."""
    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "job_parameters": {"common": {"job_type": "train", "task_cores": 1, **job_parameters}},
        "component_parameters": {"common": dict(parameters or {})},
    }


@dataclass
class Person:
    """Somebody who uses the board without scripts: cookies, the form's token, and its fields."""

    url: str
    session: requests.Session = field(default_factory=requests.Session)

    def get(self, path: str, **options: Any) -> requests.Response:
        """Return a page."""
        return self.session.get(self.url + path, timeout=CALL_S, **options)

    def opened(self, query: str = "") -> dict[str, str]:
        """Return the hidden fields of the submit page."""
        text = self.get(f"/board/submit{query}").text
        form = text[text.index('id="submit-form"') :]
        return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))

    def send(
        self, dsl: object, conf: object, *, do: str = "send", path: str = "/board/submit",
        hidden: Mapping[str, str] | None = None, **options: Any,
    ) -> requests.Response:  # fmt: skip
        """Send the form with two texts; what is no text is sent as JSON."""
        fields = dict(hidden if hidden is not None else self.opened())
        for name, value in (("dsl", dsl), ("conf", conf)):
            fields[name] = value if isinstance(value, str) else json.dumps(value, indent=2)
        data = {**fields, "do": do}
        return self.session.post(
            self.url + path, data=data, timeout=CALL_S, allow_redirects=False, **options
        )


def mistakes(page: str) -> list[str]:
    """Return the mistakes that a page lists, as plain texts."""
    found = re.search(r'<ol class="mistakes">(.*?)</ol>', page, re.S)
    items = re.findall(r"<li>(.*?)</li>", found.group(1), re.S) if found else []
    return [" ".join(re.sub(r"<[^>]+>", " ", item).split()) for item in items]


def text_of(page: str, name: str) -> str:
    """Return what one of the two text fields of a page holds, still escaped."""
    found = re.search(rf'<textarea id="{name}"[^>]*>\n(.*?)</textarea>', page, re.S)
    assert found
    return found.group(1)
