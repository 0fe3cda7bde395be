from __future__ import annotations

from snapline.web.rest_errors import RestError, bad_request, not_found, unavailable


def test_an_error_has_a_status_and_texts() -> None:
    assert (bad_request("a", "b").status, bad_request("a", "b").errors) == (400, ("a", "b"))
    assert not_found("a").status == 404
    assert dict(unavailable("a").headers) == {"retry-after": "1"}
    assert str(RestError(403, "no")) == "no"
