"""Silence that counts: a process that stood still has not read what was said to it meanwhile."""

from __future__ import annotations


def silent_since(heard: float, looked: float, now: float, interval: float) -> float:
    """When the silence of a peer began, for somebody who looks at it every `interval` and did so at `looked`.

    Whoever comes late was not running: on a busy machine, in a suspended one, or behind a call that held the
    interpreter. Of such a time only one interval counts, since what the peer has said waits to be read.
    """
    late = now - looked > 2 * interval
    return min(heard + now - looked - interval, now) if late else heard
