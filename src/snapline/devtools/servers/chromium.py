"""The browser that the tests of the page drive: Debian's Chromium, or another one of its kind that is installed."""

from __future__ import annotations

import shutil

from snapline.errors import ConfigurationError

PACKAGES = ("chromium", "fonts-inter", "fonts-liberation")
"""Debian's packages: the browser, and fonts, so that pictures look the same on every machine."""

FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Chromium refuses to sandbox itself as root; what it opens here are our own pages.
    "--no-sandbox",
)
"""It asks nobody else for anything."""

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium_program() -> str:
    """The path of the browser. Raises ConfigurationError if there is none."""
    for name in _PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise ConfigurationError(f"no browser was found; install it: apt-get install {' '.join(PACKAGES)}")
