from __future__ import annotations

from snapline.web.dashboard_routes import DASHBOARD_ROUTES
from snapline.web.routes import ROUTES

VERTEX = "/jobs/{job}/vertices/{vertex}"


def test_the_server_has_all_of_them() -> None:
    assert set(DASHBOARD_ROUTES) <= set(ROUTES)


def test_every_tab_of_a_vertex_has_its_answer() -> None:
    paths = {route.path.removeprefix(VERTEX) for route in DASHBOARD_ROUTES if route.path.startswith(VERTEX)}
    assert paths == {
        "/metrics",
        "/subtasks/metrics",
        "/watermarks",
        "/backpressure",
        "/subtasktimes",
        "/taskmanagers",
        "/accumulators",
        "/subtasks/accumulators",
        "/flamegraph",
    }


def test_only_cancel_changes_anything() -> None:
    assert [route.path for route in DASHBOARD_ROUTES if route.changes] == ["/applications/{application}/cancel"]
