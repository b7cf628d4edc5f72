"""Routes of FATE Flow 1.11 that this version does not serve: they say so, instead of "no route"."""

from __future__ import annotations

from typing import Final

from fedflow.wire.paths import PREFIX

_PATHS: Final = (
    "/checkpoint/get", "/checkpoint/list",
    "/component/hetero/merge", "/component/validate",
    "/component/woe_array/extract", "/component/woe_array/merge",
    "/data/download", "/data/writer",
    "/forward/<role>",
    "/job/clean", "/job/clean/queue", "/job/dsl/generate", "/job/parameter/update", "/job/report",
    "/job/rerun", "/job/url/get",
    "/key/public/delete", "/key/public/save", "/key/query",
    "/log/cat", "/log/size",
    "/model/archive/packaging", "/model/bind", "/model/deploy", "/model/export",
    "/model/get/predict/conf", "/model/get/predict/dsl", "/model/homo/convert",
    "/model/homo/deploy", "/model/import", "/model/load", "/model/migrate",
    "/model/model_tag/create", "/model/model_tag/remove", "/model/model_tag/retrieve",
    "/model/query", "/model/query/detail", "/model/restore", "/model/service/register",
    "/model/store", "/model/tag/create", "/model/tag/destroy", "/model/tag/list",
    "/model/tag/retrieve", "/model/tag/update", "/model/transfer",
    "/permission/delete", "/permission/grant", "/permission/query",
    "/pipeline/dag/dependency",
    "/provider/<name>/get", "/provider/get", "/provider/register", "/provider/registry/get",
    "/resource/query", "/resource/return",
    "/server/config/job/default", "/server/get", "/server/reload", "/server/service/get",
    "/service/query", "/service/registry",
    "/table/add", "/table/bind", "/table/connector/create", "/table/connector/query",
    "/table/disable", "/table/disable/delete", "/table/download", "/table/enable",
    "/table/schema/anonymous/migrate", "/table/schema/update", "/table/tracking/job",
    "/table/tracking/source",
    "/template/download",
    "/tracking/component/metric/delete",
)  # fmt: skip

_FIXED: Final = frozenset(PREFIX + path for path in _PATHS if "<" not in path)
_SHAPES: Final = tuple((PREFIX + path).split("/") for path in _PATHS if "<" in path)


def is_later(path: str) -> bool:
    """Tell whether FATE serves a path (with `/v1`) that this version does not."""
    path = path.rstrip("/")
    return path in _FIXED or any(_fits(path.split("/"), shape) for shape in _SHAPES)


def _fits(parts: list[str], shape: list[str]) -> bool:
    return len(parts) == len(shape) and all(
        wanted.startswith("<") or part == wanted for part, wanted in zip(parts, shape)
    )
