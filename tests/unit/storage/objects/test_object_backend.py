"""Which failures are worth a retry."""

from __future__ import annotations

import errno

import pytest

from snapline.storage.objects.object_backend import NotDoneError, Outlook, http_status, not_done, outlook_of


class ResponseError(Exception):
    """An error with a response, as botocore raises."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


@pytest.mark.parametrize(
    ("error", "outlook"),
    [
        (TimeoutError(), Outlook.TRANSIENT),
        (ConnectionResetError(), Outlook.TRANSIENT),
        (OSError(errno.EIO, ""), Outlook.TRANSIENT),
        (OSError(errno.ENOSPC, ""), Outlook.PERMANENT),
        (FileNotFoundError(), Outlook.PERMANENT),
        (PermissionError(), Outlook.PERMANENT),
        (OSError("no number"), Outlook.UNKNOWN),
        (ZeroDivisionError(), Outlook.UNKNOWN),
        (ResponseError(429), Outlook.TRANSIENT),
        (ResponseError(503), Outlook.TRANSIENT),
        (ResponseError(501), Outlook.PERMANENT),
        (ResponseError(403), Outlook.PERMANENT),
    ],
    ids=repr,
)
def test_failures_are_classified(error: Exception, outlook: Outlook) -> None:
    assert outlook_of(error) is outlook


def test_the_status_is_found_behind_a_wrapped_error() -> None:
    wrapped = OSError("translated")
    wrapped.__cause__ = ResponseError(416)
    assert http_status(wrapped) == 416
    assert http_status(OSError("no response")) is None


def test_a_failure_before_the_effect_is_marked_and_keeps_its_cause() -> None:
    with pytest.raises(NotDoneError) as raised, not_done():
        raise OSError(errno.ENOSPC, "full")
    assert isinstance(raised.value.__cause__, OSError)
