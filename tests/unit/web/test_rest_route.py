from __future__ import annotations

import pytest

from snapline.web.flink_checkpoint_types import CheckpointRequest
from snapline.web.rest_errors import RestError
from snapline.web.rest_route import Answer, Call, Parameter, Route, RouteTable, json_answer, path_segments
from snapline.web.routes import ROUTES


async def handler(call: Call) -> Answer:
    return json_answer([call.path, call.query])


NUMBER = Parameter("n", "a number", True, least=0, most=10, default=3)
WORD = Parameter("w", "a word", values=("a", "b"))
ROUTE = Route("GET", "/jobs/{job}/checkpoints/details/{checkpoint}", handler, "", query=(NUMBER, WORD))


@pytest.mark.parametrize(
    ("raw", "segments"),
    [
        (b"/", ("",)),
        (b"", ("",)),
        (b"//", ("",)),
        (b"/v1", ("",)),
        (b"/v1/jobs", ("jobs",)),
        (b"/jobs/a%2Fb%20c", ("jobs", "a/b c")),
        (b"/jobs/", ("jobs", "")),
        (b"/jobs/v1", ("jobs", "v1")),
        (b"/jobs/%E2%9C%93", ("jobs", "✓")),
    ],
)
def test_segments_of_a_path(raw: bytes, segments: tuple[str, ...]) -> None:
    assert path_segments(raw) == segments


def test_a_path_that_is_no_text_is_refused() -> None:
    with pytest.raises(RestError, match="UTF-8"):
        path_segments(b"/jobs/%ff")


def test_values_of_a_path() -> None:
    assert ROUTE.path_values(("jobs", "clicks", "checkpoints", "details", "-1")) == {"job": "clicks", "checkpoint": -1}
    for wrong in ("x", "1.5", "", "١", "9" * 20, "1 "):
        with pytest.raises(RestError) as refused:
            ROUTE.path_values(("jobs", "clicks", "checkpoints", "details", wrong))
        assert refused.value.status == 400


def test_values_of_a_query() -> None:
    assert ROUTE.query_values({}) == {"n": 3, "w": None}
    assert ROUTE.query_values({"n": "10", "w": "a", "other": "x"}) == {"n": 10, "w": "a"}
    for wrong in ({"n": "11"}, {"n": "-1"}, {"n": "x"}, {"w": "c"}):
        with pytest.raises(RestError):
            ROUTE.query_values(wrong)


def test_a_body_is_of_its_type() -> None:
    route = Route("POST", "/", handler, "", body=CheckpointRequest)
    assert route.decoded_body(b"") == CheckpointRequest()
    assert route.decoded_body(b'{"triggerId":"%s"}' % (b"aB" * 16)).trigger_id == "aB" * 16
    for wrong in (b"{", b"[]", b'{"triggerId":"a"}', b'{"checkpointType":"x"}', b'{"none":1}', b"\xff", b"null"):
        with pytest.raises(RestError, match="does not fit"):
            route.decoded_body(wrong)
    assert ROUTE.decoded_body(b"") is None


def test_a_fixed_path_goes_before_one_with_parameters() -> None:
    found = RouteTable(ROUTES).find("GET", ("jobs", "overview"))
    assert found is not None
    assert found.path == "/jobs/overview"
    found = RouteTable(ROUTES).find("GET", ("jobs", "clicks", "checkpoints", "config"))
    assert found is not None
    assert found.path.endswith("config")
    found = RouteTable(ROUTES).find("HEAD", ("jobs", "clicks"))
    assert found is not None
    assert found.path == "/jobs/{job}"
    assert RouteTable(ROUTES).find("GET", ("none",)) is None
    assert RouteTable(ROUTES).find("GET", ("jobs", "")) is None


def test_a_wrong_method_is_told_the_right_ones() -> None:
    with pytest.raises(RestError) as refused:
        RouteTable(ROUTES).find("DELETE", ("jobs", "clicks"))
    assert refused.value.status == 405
    assert dict(refused.value.headers) == {"allow": "GET, HEAD, PATCH"}
    with pytest.raises(RestError) as refused:
        RouteTable(ROUTES).find("HEAD", ("jobs", "clicks", "yarn-cancel"))
    assert dict(refused.value.headers) == {"allow": "GET"}
    with pytest.raises(RestError) as refused:
        RouteTable(ROUTES).find("PATCH", ("jobs", "overview"))
    assert dict(refused.value.headers) == {"allow": "GET, HEAD"}
    with pytest.raises(RestError) as refused:
        RouteTable(ROUTES).find("GET", ("savepoint-disposal",))
    assert dict(refused.value.headers) == {"allow": "POST"}
