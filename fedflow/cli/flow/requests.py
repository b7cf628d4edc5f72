"""What FATE's commands send: the content of the conf file, then each option that was given.

Source: docs/reference/rest.md#client-settings and docs/reference/rest.md#the-flow-command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, Literal
from urllib.parse import quote

import msgspec

from fedflow.base.errors.requests import BadDocument
from fedflow.base.values import dataclass
from fedflow.client.documents import read_document
from fedflow.client.downloads import safe_name

Values = Mapping[str, Any]  #: option -> value; None was not given

_LOCAL: Final = ("conf_path", "dsl_path", "train_dsl_path", "cpn_path", "input_path", "verbose")
"""Options that mean something on this machine only."""
_MODEL_COLUMNS: Final = (
    "create_date", "role", "party_id", "roles", "model_id", "model_version", "loaded_times",
    "size", "description", "parent", "parent_info",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is sent."""

    path: str  #: below /v1
    body: dict[str, Any] = field(default_factory=dict)
    method: Literal["GET", "POST"] = "POST"
    upload: Path | None = None  #: file of a multipart body
    as_form: bool = False  #: `body` are fields of that body, else JSON in the query


Build = Callable[[str, Values], Request]


def plain(path: str, values: Values) -> Request:
    """Send the conf file's members, and the options over them."""
    return Request(path=path, body=_body(values))


def get(path: str, values: Values) -> Request:
    """The same as a GET with a body."""
    return Request(path=path, body=_body(values), method="GET")


def submit(path: str, values: Values) -> Request:
    """Send conf and DSL; without a DSL file an empty one, as for predict jobs."""
    dsl = read_document(values["dsl_path"]) if values.get("dsl_path") else {}
    conf = read_document(values["conf_path"])
    return Request(path=path, body={"job_dsl": dict(dsl), "job_runtime_conf": dict(conf)})


def upload(path: str, values: Values) -> Request:
    """Send a file of this machine, or with `use_local_data` 0 the name of one of the server's."""
    conf = dict(read_document(values["conf_path"]))
    conf["drop"] = int(bool(values.get("drop")))
    if conf.get("use_local_data", 1) == 0:
        return Request(path=path, body=conf)
    return Request(path=path, body=conf, upload=_file_of(conf, values["conf_path"]))


def bind(path: str, values: Values) -> Request:
    """Send the conf, and `drop` as a switch."""
    return Request(path=path, body={**_body(values), "drop": bool(values.get("drop"))})


def component_list(path: str, values: Values) -> Request:
    """Send a training DSL as text, and the components that stay."""
    if bool(values.get("cpn_list")) == bool(values.get("cpn_path")):
        raise BadDocument(where="the command", reason="give either --cpn-list or --cpn-path")
    body: dict[str, Any] = {
        "train_dsl": msgspec.json.encode(read_document(values["train_dsl_path"])).decode(),
        "cpn_str": _components(values),
        "version": "2",
    }
    if values.get("output_path"):
        body["filename"] = f"predict_dsl_{_now()}.json"
    return Request(path=path, body=body)


def named_file(stem: str, *keys: str) -> Build:
    """Ask for a file `<stem>_<time>.json` where an output folder is named, else for JSON.

    Values of `keys` stand between stem and time.
    """

    def build(path: str, values: Values) -> Request:
        body = _body(values)
        if values.get("output_path"):
            words = (stem, *(safe_name(str(values[key])) for key in keys), _now())
            body["filename"] = f"{'_'.join(words)}.json"
        return Request(path=path, body=body)

    return build


def deploy(path: str, values: Values) -> Request:
    """Send what shall predict: all, a list of components, or a DSL as text."""
    body: dict[str, Any] = {key: values[key] for key in ("model_id", "model_version")}
    chosen = [key for key in ("cpn_list", "cpn_path", "dsl_path") if values.get(key)]
    if len(chosen) > 1:
        reason = "give only one of --cpn-list, --cpn-path and --dsl-path"
        raise BadDocument(where="the command", reason=reason)
    if chosen == ["dsl_path"]:
        body["dsl"] = msgspec.json.encode(read_document(values["dsl_path"])).decode()
    elif chosen:
        body["cpn_list"] = _components(values)
    steps = {}
    for option, key in (("cpn_step_index", "step_index"), ("cpn_step_name", "step_name")):
        for given in values.get(option) or ():
            name, colon, step = given.partition(":")
            if not (name and colon and step) or (key == "step_index" and not step.isdigit()):
                flag = option.replace("_", "-")
                raise BadDocument(where=f"--{flag}", reason=f"{given!r} is not like lr_0:3")
            steps[name] = {key: int(step) if key == "step_index" else step}
    body["components_checkpoint"] = steps
    return Request(path=path, body=body)


def import_model(path: str, values: Values) -> Request:
    """Send an archive with its share as fields; or ask for a copy of the external store."""
    conf = dict(read_document(values["conf_path"]))
    if values.get("from_database"):
        return Request(path="model/restore", body=conf)
    conf["force_update"] = int(bool(conf.get("force_update")))
    return Request(path=path, body=conf, upload=_file_of(conf, values["conf_path"]), as_form=True)


def export_model(path: str, values: Values) -> Request:
    """Ask for an archive; or let the server copy the share to the external store."""
    body = _body({**values, "to_database": None})
    if values.get("to_database"):
        return Request(path="model/store", body=body)
    return Request(path=path, body=body, method="GET")


def model_info(path: str, values: Values) -> Request:
    """Ask for a model; without `--detail` for its main columns."""
    body = _body({**values, "detail": None})
    if not values.get("detail"):
        body["query_filters"] = list(_MODEL_COLUMNS)
    return Request(path=path, body=body)


def tag_model(path: str, values: Values) -> Request:
    """Give a version a tag, or with `--remove` take it."""
    body = {key: values[key] for key in ("job_id", "tag_name")}
    return Request(path="model/model_tag/remove" if values.get("remove") else path, body=body)


def homo_deploy(path: str, values: Values) -> Request:
    """Send the conf, with the content of the file that it names."""
    body = dict(read_document(values["conf_path"]))
    inside = body.get("deployment_parameters")
    named = inside if isinstance(inside, dict) else body
    if isinstance(named.get("config_file"), str):
        path_of = Path(named["config_file"])
        with _readable(path_of) as file:
            named["config_file_content"] = file.read().decode("utf-8", errors="replace")
    return Request(path=path, body=body)


def provider(path: str, values: Values) -> Request:
    """Ask for all providers, or for one."""
    name = values.get("provider_name")
    if not name:
        return Request(path=path)
    return Request(path=f"provider/{quote(name, safe='')}/get", body={"provider_name": name})


def register_provider(path: str, values: Values) -> Request:
    """Send the conf; its path is made absolute."""
    body = dict(read_document(values["conf_path"]))
    if isinstance(body.get("path"), str):
        body["path"] = str(Path(body["path"]).expanduser().absolute())
    return Request(path=path, body=body)


def delete_metrics(path: str, values: Values) -> Request:
    """Send the job; a date is sent as `model`, as FATE does."""
    return Request(path=path, body=_body({**values, "date": None, "model": values.get("date")}))


def merge_models(path: str, values: Values) -> Request:
    """Send the models of which parties are merged."""
    body = {key: value for key, value in values.items() if value is not None}
    body.pop("output_path", None)
    body["host_party_ids"] = [p.strip() for p in values["host_party_ids"].split(",")]
    return Request(path=path, body=body)


def merge_woe(path: str, values: Values) -> Request:
    """Send what `woe-array-extract` wrote at the guest."""
    body = {**_body(values), "woe_array": dict(read_document(values["input_path"]))}
    return Request(path=path, body=body)


# --- parts ----------------------------------------------------------------------------------------


def _body(values: Values) -> dict[str, Any]:
    conf = dict(read_document(values["conf_path"])) if values.get("conf_path") else {}
    if isinstance(conf.get("output_path"), str):
        conf["output_path"] = str(Path(conf["output_path"]).expanduser().absolute())
    given = {key: value for key, value in values.items() if value is not None and key not in _LOCAL}
    if isinstance(given.get("output_path"), str):
        given["output_path"] = str(Path(given["output_path"]).expanduser().absolute())
    return {**conf, **given}


def _components(values: Values) -> list[str]:
    given = values.get("cpn_list")
    if not given:
        with _readable(Path(values["cpn_path"])) as file:
            given = file.read().decode("utf-8", errors="replace")
    return [name for name in re.split(r"[\s,\[\]\"']+", given) if name]


def _file_of(conf: Values, conf_path: str) -> Path:
    """Return the file that a conf names. Raises: BadDocument: it names none, or it is not there."""
    named = conf.get("file")
    if not isinstance(named, str) or not named:
        raise BadDocument(where=conf_path, reason="`file` must name a file")
    path = Path(named).expanduser().absolute()
    with _readable(path):
        return path


@contextmanager
def _readable(path: Path) -> Iterator[IO[bytes]]:
    try:
        file = path.open("rb")
    except OSError as exc:
        raise BadDocument(where=str(path), reason=exc.strerror or str(exc)) from exc
    with file:
        yield file


def _now() -> str:
    return datetime.now().strftime("%Y%m%d%H%M%S")
