"""The built-in sinks are exported, and all of them are sinks."""

from __future__ import annotations

import snapline as sl
from snapline.connectors import sinks


def test_everything_exported_is_a_sink() -> None:
    exported = {name: getattr(sinks, name) for name in sinks.__all__}
    assert [name for name, item in exported.items() if not isinstance(item, type)] == ["read_files"]
    assert all(issubclass(kind, sl.Sink) for kind in exported.values() if isinstance(kind, type))
