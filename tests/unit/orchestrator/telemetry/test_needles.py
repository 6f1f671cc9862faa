"""Many words are found as one by one, and a word that is cut is known by its beginning."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.telemetry.needles import Beginnings, pattern_of

WORDS = st.lists(st.text("ab.(", min_size=1, max_size=5), min_size=1, max_size=8)


@given(WORDS, st.text("ab.(c", max_size=30))
def test_the_pattern_finds_what_the_plain_alternatives_find_longest_first(words: list[str], text: str) -> None:
    plain = re.compile("|".join(re.escape(word) for word in sorted(set(words), key=len, reverse=True)))
    assert [found.span() for found in re.finditer(pattern_of(words), text)] == [found.span() for found in plain.finditer(text)]


@given(WORDS, st.text("ab.(c", max_size=12))
def test_the_end_of_a_text_is_held_where_a_word_could_go_on(words: list[str], text: str) -> None:
    encoded = [word.encode() for word in words]
    data = text.encode()
    begins = [start for start in range(len(data)) if any(w.startswith(data[start:]) and w != data[start:] for w in encoded)]
    assert Beginnings(encoded).at_the_end_of(data) == min(begins, default=len(data))


def test_hundreds_of_words_are_one_pattern() -> None:
    words = [f"{prefix}{number:04}" for prefix in ("alpha-", "beta-") for number in range(500)]
    assert re.sub(pattern_of(words), "*", "x alpha-0007 beta-0499 alpha-9999") == "x * * alpha-9999"
