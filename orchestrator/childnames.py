"""What the children of a fan-out are called: after what they are about, and never two the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

MAX_NAME = 60
"""Characters."""
UNNAMED = "child"
"""What those are called, with a number, about whom nothing can be said."""

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}")
_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")


def check_child_name(value: str) -> str:
    """`value` itself. Raises `ValueError` when no child can be called so."""
    if not _NAME.fullmatch(value):
        raise ValueError(f"must be at most {MAX_NAME} letters, digits and any of . _ -, beginning with a letter or digit")
    return value


def child_names(about: Sequence[str]) -> list[str]:
    """A name for each of these texts, in their order: its letters and digits, and a number where that is nothing or not new."""
    slugs = [_slug(text) for text in about]
    counted = Counter(slugs)
    taken = {slug for slug in slugs if slug and counted[slug] == 1}
    numbers: Counter[str] = Counter()
    return [slug if slug in taken else _numbered(slug or UNNAMED, numbers, taken) for slug in slugs]


def _slug(text: str) -> str:
    return _OTHERS.sub("-", text).lstrip("._-")[:MAX_NAME].rstrip("._-")


def _numbered(slug: str, numbers: Counter[str], taken: set[str]) -> str:
    """The next name of this slug that no other child has as it is."""
    while True:
        numbers[slug] += 1
        end = f"-{numbers[slug]}"
        if (name := slug[: MAX_NAME - len(end)] + end) not in taken:
            return name
