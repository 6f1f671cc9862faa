"""Words and lines."""

import re


def slug(title):
    """`Hello, World!` as it stands in an address: `hello-world`."""
    return "-".join(re.findall(r"[a-z0-9]+", title))


def initials(name):
    """The first letters of a name, in capitals: `Ada King Lovelace` is `AKL`."""
    return "".join(word[0] for word in name.split())


def shorten(text, width):
    """At most `width` characters of a text; one that was cut ends with three dots."""
    return text if len(text) <= width else text[:width] + "..."


def is_palindrome(text):
    """Whether the letters of a text are the same from the end, whatever their case."""
    letters = [char for char in text if char.isalpha()]
    return letters == letters[::-1]
