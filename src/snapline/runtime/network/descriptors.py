"""File descriptors: checked before connections need them, because running out of them fails anything at any time."""

from __future__ import annotations

import resource

from snapline.errors import ConfigurationError

SPARE_DESCRIPTORS = 128
"""For files, libraries and user code, beside the connections."""


def require_descriptors(connections: int, who: str) -> None:
    """Raise this process's limit if it is too low. Raises `ConfigurationError` if the system does not allow that."""
    needed = connections + SPARE_DESCRIPTORS
    limit, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return
    if highest != resource.RLIM_INFINITY and highest < needed:
        raise ConfigurationError(
            f"{who} needs {needed} file descriptors, {connections} of them for connections, but the system allows "
            f"{highest}; raise the limit (ulimit -Hn, LimitNOFILE of a service, ulimits of a container), or lower the "
            "parallelism"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, highest))
