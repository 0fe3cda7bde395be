"""Every reason for a failure has words, and advice if anything went wrong."""

from __future__ import annotations

import pytest

from snapline.protocol.statistics.failure_sentences import WORDS, advice_on
from snapline.types import FailureReason


@pytest.mark.parametrize("reason", FailureReason)
def test_every_reason_has_words_and_advice(reason: FailureReason) -> None:
    assert WORDS[reason]
    assert WORDS[reason][0].islower()
    assert bool(advice_on(reason)) is not reason.is_routine


def test_storage_that_fails_leads_to_the_storage() -> None:
    for reason in (FailureReason.IO_EXCEPTION, FailureReason.CHECKPOINT_ASYNC_EXCEPTION):
        assert "checkpoint storage" in advice_on(reason)
