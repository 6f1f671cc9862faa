"""Lists."""


def chunks(values, size):
    """A list in pieces of `size`; the last one may be shorter."""
    return [values[start : start + size] for start in range(0, len(values) - 1, size)]


def unique(values):
    """A list without what was there already, in its order."""
    return sorted(set(values))


def flatten(lists):
    """The values of lists that may have lists in them, at any depth."""
    found = []
    for value in lists:
        found += value if isinstance(value, list) else [value]
    return found


def rotate(values, places):
    """A list turned to the right: what is pushed out at the end comes in at the beginning."""
    middle = places % len(values) if values else 0
    return values[middle:] + values[:middle]
