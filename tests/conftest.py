"""Settings for every test: Hypothesis draws the same examples on every run, on every machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2000)
settings.load_profile("ci")
