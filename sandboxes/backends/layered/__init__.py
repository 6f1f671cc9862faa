"""Over other backends: places and routes, and operations that are written once for sync and async."""
