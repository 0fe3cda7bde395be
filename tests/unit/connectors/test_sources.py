"""The built-in sources are exported, and all of them are sources."""

from __future__ import annotations

import snapline as sl
from snapline.connectors import sources


def test_everything_exported_is_a_source() -> None:
    exported = {name: getattr(sources, name) for name in sources.__all__}
    assert all(issubclass(kind, sl.Source) for kind in exported.values())
    assert issubclass(sl.sources.Files, sl.Source)
