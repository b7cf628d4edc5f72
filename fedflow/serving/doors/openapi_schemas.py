"""Schemas of what the two HTTP ports answer, for their OpenAPI documents."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

REF: Final = "#/components/schemas/{name}"

TEXT: Final[Json] = {"type": "string"}
WHOLE: Final[Json] = {"type": "integer"}
REAL: Final[Json] = {"type": "number"}
FLAG: Final[Json] = {"type": "boolean"}
ANY: Final[Json] = {}


def object_of(optional: str = "", /, **members: Json) -> Json:
    """Return an object; `optional` names the members that may be missing."""
    required = [name for name in members if name not in optional.split()]
    return {"type": "object", "properties": members, "required": required}


def list_of(items: Json) -> Json:
    """Return a list."""
    return {"type": "array", "items": items}


def map_of(values: Json) -> Json:
    """Return an object with any names."""
    return {"type": "object", "additionalProperties": values}


def or_null(value: Json) -> Json:
    """Return what may be null."""
    return {"anyOf": [value, {"type": "null"}]}


def named(name: str) -> Json:
    """Return a schema of the document by its name."""
    return {"$ref": REF.format(name=name)}


_SCORE: Final[Json] = {
    "score": {"anyOf": [REAL, list_of(REAL)], "description": "A list has one value per class."},
    "label": {"anyOf": [TEXT, REAL]},
    "creditScore": REAL,
    "degraded": {**TEXT, "description": "How the score came about without a host."},
    "degradedReason": TEXT,
}
OUTCOME: Final[Json] = {
    "retcode": {**WHOLE, "description": "0: success. What fails at a host has 2000 more."},
    "retmsg": TEXT,
}
_VERSION: Final[Json] = {
    "modelId": TEXT,
    "modelVersion": TEXT,
    "timestamp": {**WHOLE, "description": "Milliseconds since the epoch."},
    "selectedBy": {**TEXT, "description": "Why this version answers."},
}
_SCORE_NAMES: Final = " ".join(_SCORE)
_VERSION_NAMES: Final = " ".join(_VERSION)
_HOOKS: Final[Json] = {"additionalProperties": True, "description": "Hooks may add members."}
_TENSOR: Final[Json] = {"name": TEXT, "datatype": TEXT, "shape": list_of(WHOLE)}
_SPLIT: Final[Json] = {"model_id": TEXT, "model_version": TEXT, "weight": REAL}
_RELEASE: Final[Json] = {
    **_SPLIT,
    "versions": list_of(object_of(**_SPLIT, shadow=FLAG)),
    "rules": list_of(named("HeaderRule")),
}
_SHARE: Final[Json] = {
    "role": TEXT,
    "party_id": TEXT,
    "model_id": TEXT,
    "model_version": TEXT,
}

SCHEMAS: Final[Json] = {
    "Error": object_of("hint", **OUTCOME, hint=TEXT),
    "ProtocolError": object_of(error=TEXT),
    "Alive": object_of(alive=FLAG),
    "Readiness": object_of(
        ready=FLAG,
        starting=FLAG,
        reasons=list_of(TEXT),
        models=WHOLE,
        refused=list_of(object_of(model_version=TEXT, model_id=TEXT, reason=TEXT)),
        circuits=map_of(TEXT),
        partners=map_of(TEXT),
    ),
    "SingleAnswer": object_of(
        **OUTCOME,
        flag=WHOLE,
        data={**object_of(f"{_SCORE_NAMES} {_VERSION_NAMES}", **_SCORE, **_VERSION), **_HOOKS},
        caseId=TEXT,
    ),
    "ItemAnswer": object_of(
        index=WHOLE,
        **OUTCOME,
        data={
            **object_of(_SCORE_NAMES, **_SCORE, modelVersion=TEXT, selectedBy=TEXT),
            **_HOOKS,
        },
    ),
    "BatchAnswer": object_of(
        "batchDataList singleInferenceResultMap",
        **OUTCOME,
        flag=WHOLE,
        data=object_of(_VERSION_NAMES, **_VERSION),
        batchDataList=list_of(named("ItemAnswer")),
        singleInferenceResultMap=map_of(named("ItemAnswer")),
        caseId=TEXT,
    ),
    "Server": object_of(name=TEXT, version=TEXT, extensions=list_of(TEXT)),
    "Live": object_of("ready", live=FLAG, ready=FLAG),
    "ModelReady": object_of(name=TEXT, ready=FLAG),
    "ModelFacts": object_of(
        name=TEXT,
        versions=list_of(TEXT),
        platform=TEXT,
        inputs=list_of(object_of(**_TENSOR, parameters=object_of(send_to_remote=FLAG))),
        outputs=list_of(object_of(**_TENSOR)),
        parameters=object_of(partners=TEXT, ids_declared=FLAG),
    ),
    "InferAnswer": object_of(
        model_name=TEXT,
        model_version=TEXT,
        id=TEXT,
        parameters=object_of("degraded", selected_by=TEXT, degraded=TEXT),
        outputs=list_of(
            object_of(
                "data parameters",
                **_TENSOR,
                data=list_of(ANY),
                parameters=object_of(binary_data_size=WHOLE),
            )
        ),
    ),
    "Share": object_of(
        "digest load_id inputs texts hosts answers_callers reason",
        **_SHARE,
        party_model_id=TEXT,
        status={"enum": ["loaded", "refused"]},
        reason=TEXT,
        digest=TEXT,
        load_id=TEXT,
        inputs=list_of(TEXT),
        texts=list_of(TEXT),
        hosts=list_of(TEXT),
        answers_callers=FLAG,
        services=list_of(TEXT),
    ),
    "Drift": object_of(
        **_SHARE,
        left_out=WHOLE,
        columns=list_of(
            object_of(
                kind=TEXT,
                column=TEXT,
                rows=WHOLE,
                psi=or_null(REAL),
                state=TEXT,
                reference=TEXT,
                edges=list_of(REAL),
                expected=list_of(REAL),
                actual=list_of(REAL),
            )
        ),
    ),
    "Service": object_of(
        service_id=TEXT,
        **_RELEASE,
        bound_ms=WHOLE,
        options={**named("ServiceOptions")},
        salt=TEXT,
        history=list_of(object_of(**_RELEASE, bound_ms=WHOLE, current=FLAG)),
    ),
    "Change": object_of(
        "salt", before=or_null(object_of(**_RELEASE)), now=or_null(object_of(**_RELEASE)), salt=TEXT
    ),
    "Ids": object_of(partner_ids=or_null(list_of(TEXT))),
    "Purged": object_of(purged=WHOLE),
    "Unbound": object_of(unbound=list_of(TEXT)),
}
