"""Attacks on the REST port: by web pages, by who has no signature or an old token, by archives."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Final

import requests

from fedflow.base.ids import PartyId
from fedflow.domain.records import TaskKey
from fedflow.domain.site import Role, Site
from fedflow.wire.paths import task_path
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.database import stored
from tests.attack.hostile import http, request
from tests.attack.scene import MIB
from tests.e2e.servers import GUEST_ID

_FOREIGN: Final = {"Host": "evil.example:9380"}
_READABLE: Final = (
    "/v1/party/list", "/v1/component/describe", "/readyz", "/v1/job/{job}/events",
    "/v1/job/{job}/explain", "/board", "/fateboard", "/v1/version/get",
)  # fmt: skip


async def rebinding(attempt: Attempt) -> Violations:
    """Read the REST API as a web page whose host name was pointed at this machine."""
    victim, found = attempt.scene.guest, []
    for target in _READABLE:
        path = target.format(job=attempt.scene.joint_job)
        status, body = await http(victim, request("GET", path, headers=_FOREIGN), attempt.answers)
        answered = status == 200 and b'"retcode":0' in body.replace(b" ", b"")
        if answered or (status == 200 and b'"cores"' in body):
            found.append(f"GET {path} for a foreign host name: {body[:100]!r}")
    return found


async def foreign_pages(attempt: Attempt) -> Violations:
    """Send what a form or a script of another site can send."""
    victim, found = attempt.scene.guest, []
    body = json.dumps({"job_id": attempt.scene.joint_job}).encode()
    for path in ("/v1/job/stop", "/v1/job/rerun", "/v1/job/clean", "/v1/job/delete", "/board/jobs"):
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://evil.example:9380", **_FOREIGN},
            {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-site"},
        ):
            for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
                sent = request("POST", path, body=body, headers={**headers, "Content-Type": kind})
                status, answer = await http(victim, sent, attempt.answers)
                if status == 200 and b'"retcode":0' in answer.replace(b" ", b""):
                    found.append(f"POST {path} with {headers} as {kind}")
    return found


async def old_token(attempt: Attempt) -> Violations:
    """Speak for a task that has ended, with the token of an old backup."""
    victim, job_id, found = attempt.scene.guest, attempt.scene.joint_job, []
    ((token, component),) = stored(
        victim, "SELECT f_token, f_component_name FROM t_task WHERE f_job_id = ? LIMIT 1",
        job_id,
    )  # fmt: skip
    site = Site(Role.GUEST, PartyId(GUEST_ID))
    key = TaskKey(job_id=job_id, component=component, version=0, site=site)
    bodies = {
        "table_get": {"namespace": "experiment", "table_name": "patients"},
        "metric_save": {"metrics": []},
        "model_get": {},
        "task_report": {"party_status": "failed"},
    }
    for name, body in bodies.items():
        headers = {"X-Fedflow-Task-Token": token, "Content-Type": "application/json"}
        sent = request(
            "POST", "/v1" + task_path(name, key), body=json.dumps(body).encode(), headers=headers
        )
        status, answer = await http(victim, sent, attempt.answers)
        if status == 200 and b'"retcode":0' in answer.replace(b" ", b""):
            found.append(f"{name} with the token of an ended task: {answer[:100]!r}")
    return found


async def model_archives(attempt: Attempt) -> Violations:
    """Import archives with paths upwards, links, bombs, and lists that do not fit."""
    victim, found = attempt.scene.guest, []
    for name, archive in _archives().items():
        with io.BytesIO(archive) as file:
            files = {"file": ("model.zip", file)}
            answer = requests.post(
                f"{victim.url}/v1/model/import", files=files, timeout=30,
                data={
                    "model_id": "guest-9999#host-10000#model", "model_version": "1" * 24,
                    "role": "guest", "party_id": "9999",
                },
            )  # fmt: skip
        attempt.answers.note(f"HTTP {answer.status_code}", answer.content)
        if answer.status_code == 200 and answer.json().get("retcode") == 0:
            found.append(f"an archive was taken: {name}")
    return found


def _archives() -> dict[str, bytes]:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    many = {f"f{n}": b"" for n in range(21_000)}
    return {
        "no archive": b"PK\x03\x04" + b"x" * 100,
        "upwards": _zip({"../../evil.txt": b"x"}),
        "absolute": _zip({"/tmp/evil.txt": b"x"}),
        "a link": _zip({link: b"/etc/passwd"}),
        "a bomb": _zip({"big": b"\x00" * (100 * MIB)}),
        "many files": _zip(many),
        "a strange list": _zip({"manifest.json": b'{"model_id": [[[]]]}', "a/b": b"x"}),
    }


def _zip(files: dict[str, bytes] | dict[zipfile.ZipInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


WEB: Final = (
    Attack(name="rebinding", who=Who.WEB_PAGE, play=rebinding),
    Attack(name="foreign-pages", who=Who.WEB_PAGE, play=foreign_pages),
    Attack(name="old-token", who=Who.REST_CLIENT, play=old_token),
    Attack(name="model-archives", who=Who.REST_CLIENT, play=model_archives),
)
