"""Tools for developing Snapline itself: simulator, replay, chaos, page makers. Users need none of them."""
