"""Snapshots are told by their names alone, and nothing else is taken for one of ours."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.errors import SandboxNotFound
from sandboxes.providers.base import SandboxSpec, SnapshotHandle
from sandboxes.providers.daytona import names
from sandboxes.providers.ids import new_snapshot_id


def snapshot(labels, spec=None, workdir="/workspace"):
    told = (spec or SandboxSpec()).told()
    return SnapshotHandle("daytona", new_snapshot_id(), labels, "then", "", {"workdir": workdir, **told, "untold": []})


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=3))
def test_whatever_the_labels_are_they_come_back(labels):
    made = snapshot(labels)
    name = names.name_of(made)
    if name is not None:
        assert len(name) <= names.CAP
        found = names.handle_of("daytona", name, "then")
        assert (found.id, dict(found.labels), found.told_spec) == (made.id, labels, made.told_spec)


@given(st.lists(st.sampled_from(["ab", "0123456789abcdef", "deadbeef" * 40, "\0", "\0\x04abc", "ü"]), max_size=4).map("".join))
def test_hexadecimal_words_are_shortened_and_come_back(value):
    made = snapshot({"a": value})
    name = names.name_of(made)
    assert name is None or dict(names.handle_of("daytona", name, "").labels) == {"a": value}


def test_the_labels_of_a_run_have_room():
    labels = {"fanfold.installation": str(uuid.uuid4()), "fanfold.run": uuid.uuid4().hex, "fanfold.attempt": "12"}
    spec = SandboxSpec(image="registry.example.com/team/python-node:2026.11", resources={"memory": "2GiB"})
    assert names.name_of(snapshot(labels, spec)) is not None


@pytest.mark.parametrize("name", ["", "ubuntu", "snp-0123456789abcdef", "snp-0123456789abcdef-!!", "snp-0123456789abcdef-aa"])
def test_what_others_call_theirs_is_none_of_ours(name):
    assert names.handle_of("daytona", name, "") is None


def test_a_handle_that_names_another_snapshot_is_refused():
    made = snapshot({})
    forged = SnapshotHandle(**{**made.to_json(), "data": {"snapshot": "snp-ffffffffffffffff-x"}})
    with pytest.raises(SandboxNotFound):
        names.checked(forged)
