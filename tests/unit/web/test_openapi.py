from __future__ import annotations

import json
import re

from snapline.web.openapi import ALL_ROUTES, openapi_document


def test_every_route_is_described() -> None:
    document = json.loads(openapi_document())
    assert document["openapi"].startswith("3.1")
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ALL_ROUTES}
    ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(set(ids)) == len(ids)


def test_parameters_of_paths_are_described() -> None:
    for path, methods in json.loads(openapi_document())["paths"].items():
        for operation in methods.values():
            named = [item["name"] for item in operation["parameters"] if item["in"] == "path"]
            assert named == re.findall(r"{(\w+)}", path)


def test_every_reference_is_there() -> None:
    text = openapi_document().decode()
    schemas = json.loads(text)["components"]["schemas"]
    assert set(re.findall(r"#/components/schemas/([\w.]+)", text)) <= set(schemas)
    assert {"className", "external_path", "discarded"} <= set(schemas["CompletedCheckpoint"]["properties"])
    assert "start-time" in schemas["JobSummary"]["properties"]


def test_changes_say_what_can_be_refused() -> None:
    paths = json.loads(openapi_document())["paths"]
    assert {"202", "400", "401", "403", "404", "409", "413", "415", "429"} <= set(
        paths["/jobs/{job}/stop"]["post"]["responses"]
    )
