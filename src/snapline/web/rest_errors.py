"""Refusals of requests, with their HTTP status."""

from __future__ import annotations


class RestError(Exception):
    """The request is not carried out. Everything in `errors` may be shown to whoever asked."""

    def __init__(self, status: int, *errors: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(*errors)
        self.status = status
        self.errors = errors
        self.headers = headers


def bad_request(*errors: str) -> RestError:
    return RestError(400, *errors)


def not_found(*errors: str) -> RestError:
    return RestError(404, *errors)


def unavailable(error: str) -> RestError:
    """Nothing is wrong with the request; ask again soon."""
    return RestError(503, error, headers=(("retry-after", "1"),))
