"""Whatever labels are, the platform takes them as tags, and they come back as they were."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modal._utils.name_utils import check_tag_dict

from sandboxes.errors import InvalidSpec
from sandboxes.providers.modal import tags

LABELS = st.dictionaries(st.text(max_size=80), st.text(max_size=80), max_size=6)


@given(LABELS)
def test_labels_become_tags_that_the_platform_takes_and_come_back_as_they_were(labels):
    marks = {**tags.labels_as_tags(labels), **tags.packed({"labels": labels})}
    check_tag_dict(marks)
    assert tags.unpacked(marks) == {"labels": labels}


@given(LABELS, LABELS)
def test_who_has_all_labels_that_are_looked_for_has_their_tags(labels, more):
    wanted = tags.labels_as_tags(labels)
    assert wanted.items() <= tags.labels_as_tags({**more, **labels}).items() or len(wanted) < len(labels)


def test_a_label_that_can_be_a_tag_is_that_tag():
    assert tags.labels_as_tags({"run": "run-1.a_B"}) == {"run": "run-1.a_B"}


@pytest.mark.parametrize("key", ["_fanfold.0", "_sha.abc", "", "a b", "ü", "x" * 64])
def test_a_label_that_cannot_be_one_or_is_ours_stands_there_as_its_hash(key):
    [(name, value)] = tags.labels_as_tags({key: "v"}).items()
    assert (name[:5], value) == ("_sha.", "v")


def test_labels_that_are_too_long_are_refused():
    with pytest.raises(InvalidSpec, match="too long for Modal's tags"):
        tags.packed({"labels": {str(n): string.ascii_letters * 40 + str(hash(str(n))) for n in range(400)}})


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"_fanfold.1": "x"},
        {"_fanfold.0": "not packed"},
        {"_fanfold.0": ""},
        {"run": "1"},
        tags.packed({}) | {"_fanfold.0": "eJw"},
    ],
)
def test_tags_of_somebody_else_tell_nothing(marks):
    assert tags.unpacked(marks) is None


def test_a_bomb_is_not_unpacked():
    assert tags.unpacked(tags.packed({"a": "x" * (tags.PACKED_CAP + 1)})) is None
