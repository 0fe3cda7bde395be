"""The sources that come with Snapline."""

from snapline.connectors.rate import Rate

__all__ = ["Rate"]
