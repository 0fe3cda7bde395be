from __future__ import annotations

from snapline.web.openapi import ALL_ROUTES
from snapline.web.rest_route import PATH_PARAMETERS
from snapline.web.routes import FLINK_ROUTES, ROUTES

REST = """
GET /config
GET /overview
GET /jobs
GET /jobs/overview
GET /applications/overview
GET /applications/{application}
GET /jobs/{job}
GET /jobs/{job}/checkpoints
GET /jobs/{job}/checkpoints/details/{checkpoint}
GET /jobs/{job}/checkpoints/details/{checkpoint}/subtasks/{vertex}
GET /jobs/{job}/checkpoints/config
GET /jobs/{job}/vertices/{vertex}
GET /jobs/{job}/exceptions
POST /jobs/{job}/checkpoints
GET /jobs/{job}/checkpoints/{trigger}
POST /jobs/{job}/savepoints
POST /jobs/{job}/stop
GET /jobs/{job}/savepoints/{trigger}
POST /savepoint-disposal
GET /savepoint-disposal/{trigger}
PATCH /jobs/{job}
GET /jobs/{job}/yarn-cancel
"""


def test_all_calls_of_flinks_clients_are_there() -> None:
    assert {f"{route.method} {route.path}" for route in FLINK_ROUTES} == set(REST.split("\n")) - {""}


def test_no_two_routes_are_the_same() -> None:
    assert len({(route.method, route.path) for route in ALL_ROUTES}) == len(ALL_ROUTES)


def test_whatever_is_no_get_changes_something_and_answers_202() -> None:
    for route in ROUTES:
        assert route.changes == (route.method != "GET" or route.path.endswith("yarn-cancel"))
        assert route.changes == (route.status == 202)


def test_every_parameter_of_a_path_is_known() -> None:
    used = {segment[1:-1] for route in ROUTES for segment in route.segments if segment.startswith("{")}
    assert used == set(PATH_PARAMETERS)
