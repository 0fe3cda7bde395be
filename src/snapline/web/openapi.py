"""The description of the REST interface (OpenAPI 3.1), made from the table of its routes."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import msgspec

from snapline.web.own_types import Errors
from snapline.web.rest_route import JSON, PATH_PARAMETERS, Answer, Call, Parameter, Route
from snapline.web.routes import ROUTES

DESCRIPTION = (
    "Paths and fields outside of /snapline are those of Flink's REST interface. Every path may also begin with /v1. "
    "Times are epoch milliseconds, durations milliseconds, sizes bytes; -1 is not known."
)

_ERRORS = {
    400: "A parameter or the body is wrong.",
    401: "The token is missing or wrong.",
    403: "The server is read-only, or the request comes from a page from elsewhere.",
    404: "There is no such job, vertex, checkpoint or operation.",
    405: "The path has no such method.",
    409: "The job has ended, or cannot do this now.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    429: "Too many operations are under way.",
    503: "The driver does not answer; ask again.",
}
_OF_READS = (400, 401, 403, 404, 405, 503)
_OF_CHANGES = (*_OF_READS, 409, 413, 415, 429)


async def openapi(call: Call) -> Answer:
    del call
    return Answer(openapi_document())


ALL_ROUTES = (
    *ROUTES,
    Route("GET", "/openapi.json", openapi, "This description", dict[str, Any], tag="Snapline"),
)


@lru_cache(maxsize=1)
def openapi_document() -> bytes:
    """The description as JSON."""
    types = [route.answer for route in ALL_ROUTES if route.answer is not None]
    types += [route.body for route in ALL_ROUTES if route.body is not None]
    schemas, components = msgspec.json.schema_components([*types, Errors], ref_template="#/components/schemas/{name}")
    schema_of = dict(zip([*map(_key, types), _key(Errors)], schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ALL_ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Snapline", "version": version("snapline"), "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "Flink", "description": "As Flink's REST interface."},
            {"name": "Snapline", "description": "Our own."},
        ],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
    return msgspec.json.encode(document)


def _operation(route: Route, schema_of: dict[str, Any]) -> dict[str, Any]:
    names = [segment[1:-1] for segment in route.segments if segment.startswith("{")]
    parameters = [
        *(_parameter(PATH_PARAMETERS[name], "path") for name in names),
        *(_parameter(parameter, "query") for parameter in route.query),
    ]
    good = {"type": "string"} if route.answer is None else schema_of[_key(route.answer)]
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": parameters,
        "responses": {
            str(route.status): {"description": "As asked for.", "content": {route.media: {"schema": good}}},
            **{str(status): _error(status, schema_of) for status in (_OF_CHANGES if route.changes else _OF_READS)},
        },
    }
    if route.body is not None:
        is_required = any(field.required for field in msgspec.structs.fields(route.body))
        content = {JSON: {"schema": schema_of[_key(route.body)]}}
        operation["requestBody"] = {"required": is_required, "content": content}
    return operation


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer" if parameter.is_integer else "string"}
    if place == "path" and not parameter.is_integer:
        schema["minLength"] = 1
    if parameter.is_integer:
        schema["minimum"], schema["maximum"] = parameter.least, parameter.most
    if parameter.values:
        schema = {"type": "string", "enum": list(parameter.values)}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {
        "name": parameter.name,
        "in": place,
        "required": place == "path",
        "description": parameter.description,
        "schema": schema,
    }


def _error(status: int, schema_of: dict[str, Any]) -> dict[str, Any]:
    return {"description": _ERRORS[status], "content": {JSON: {"schema": schema_of[_key(Errors)]}}}


def _operation_id(route: Route) -> str:
    words = re.findall(r"[A-Za-z0-9]+", route.path)
    return "_".join([route.method.lower(), *words])


def _key(kind: Any) -> str:
    return str(kind)
