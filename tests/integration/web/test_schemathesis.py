"""Generated requests against a running job, from the description of the interface: none is a server error.

Ids are sometimes those of the job. What changes the job comes last, and may end it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.core.result import Ok
from tests.integration.web.live_kit import Client, Start, clicks, started

import snapline as sl
from snapline.web.rest_ids import hex_id

pytestmark = pytest.mark.slow

EXAMPLES = 3
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def known_ids(document: dict[str, Any], jid: str) -> dict[str, Any]:
    """The description, with ids of the job among those that may be drawn."""
    known = {
        "job": {"enum": [jid, "clicks"]},
        "application": {"enum": [jid]},
        "vertex": {"enum": [hex_id("out"), "clicks"]},
    }
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path" and parameter["name"] in known:
                    parameter["schema"] = {"anyOf": [known[parameter["name"]], parameter["schema"]]}
                elif parameter["name"] == "checkpoint":
                    parameter["schema"] = {"type": "integer", "minimum": -2, "maximum": 10}
    return document


def test_no_generated_request_is_a_server_error(start: Start, tmp_path: Path) -> None:
    handle = start(clicks("clicks", tmp_path, sl.Monitoring(port=None)))
    client = Client(handle.url)
    document = known_ids(json.loads(client.ask("GET", "/openapi.json").body), started(client, "clicks"))
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=client.root)
    operations = sorted(
        (found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)),
        key=lambda operation: (operation.method != "get" or "cancel" in operation.path, operation.path),
    )
    assert len(operations) == sum(map(len, document["paths"].values()))
    asked = 0
    for operation in operations:
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            strategy = operation.as_strategy(generation_mode=mode)
            if mode is schemathesis.GenerationMode.NEGATIVE and not (operation.query or operation.body):
                continue  # any text may be the id of a job

            @settings(
                max_examples=EXAMPLES,
                phases=[Phase.generate],
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=strategy)
            def ask(case: Case[Any]) -> None:
                nonlocal asked
                asked += 1
                case.call_and_validate(timeout=120)

            ask()
    for path in document["paths"]:
        concrete = path.replace("{job}", "clicks").replace("{", "").replace("}", "")
        for method in METHODS:
            if method.lower() not in document["paths"][path]:
                is_read = method == "HEAD" and "get" in document["paths"][path] and not path.endswith("cancel")
                assert client.ask(method, concrete).status in ((200, 400, 404) if is_read else (405,))
    assert asked > len(operations)
