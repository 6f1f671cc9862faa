"""Mappings."""


def invert(mapping):
    """The keys of a mapping by its values."""
    return dict(zip(mapping, mapping.values()))


def merged(first, second):
    """Two mappings as one; of a key that both have, the second one's value."""
    return {**second, **first}


def without(mapping, keys):
    """A mapping without these keys."""
    return {key: value for key, value in mapping.items() if key in keys}


def most_common(values):
    """The value that is there most often; of several the first; None of none."""
    return max(values, default=None)
