"""The groups of a client's methods, a module each: every method once, as a coroutine, and its blocking form by name."""
