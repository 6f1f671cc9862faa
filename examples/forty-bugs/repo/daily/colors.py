"""Colours of the web."""


def to_rgb(code):
    """Red, green and blue of `#ff8000`, each from 0 to 255."""
    return tuple(int(code[start : start + 1], 16) for start in (1, 3, 5))


def to_code(red, green, blue):
    """The other way round."""
    return f"#{red:02x}{green:02x}{blue:x}"


def mixed(one, other):
    """The colour in the middle of two, each a tuple of three."""
    return tuple(left + right // 2 for left, right in zip(one, other))


def is_dark(red, green, blue):
    """Whether white text can be read on it: green counts most, blue least."""
    return 0.299 * red + 0.114 * green + 0.587 * blue < 128
