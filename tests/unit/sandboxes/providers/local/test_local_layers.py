"""The folders of sandboxes as layers: each stays for as long as it, or somebody who stands on it, is there, and no longer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.errors import SandboxNotFound
from sandboxes.providers.local.layers import Below, Layers

steps = st.lists(st.tuples(st.sampled_from(["make", "fork", "retire", "killed"]), st.integers(0, 50)), max_size=30)

NOTHING = Below()


@pytest.fixture
def layers(tmp_path):
    return Layers(tmp_path / "sandboxes")


def add(layers, name, below=NOTHING):
    with layers.locked():
        origin = below.workspace[-1] if below.workspace else None
        layers.add(name, "handle.json", json.dumps({"id": name}), below, origin)
    (layers._top / name / "upper").mkdir()
    (layers._top / name / "state").mkdir()


def fork(layers, parent, name):
    add(layers, name, layers.below(parent).with_top(parent, system=True))


@given(steps)
def test_what_is_there_is_what_is_needed(tmp_path_factory, steps):
    layers = Layers(tmp_path_factory.mktemp("layers") / "sandboxes")
    alive: dict[str, set[str]] = {}
    for number, (step, which) in enumerate(steps):
        name = f"sbx-{number}"
        chosen = sorted(alive)[which % len(alive)] if alive else None
        if step == "make":
            add(layers, name)
            alive[name] = set()
        elif step == "fork" and chosen:
            fork(layers, chosen, name)
            alive[name] = {chosen, *alive[chosen]}
        elif step == "retire" and chosen:
            layers.retire(chosen)
            del alive[chosen]
        elif step == "killed" and chosen:  # after its record was turned into a husk
            (layers._top / chosen / "handle.json").rename(layers._top / chosen / "husk.json")
            del alive[chosen]
            needed = set(alive).union(*alive.values())
            assert {folder.name for folder in layers.unneeded()} == found(layers) - needed
            layers.retire("sbx-nobody")
        assert found(layers) == set(alive).union(*alive.values())
        for one in alive:
            assert layers.standing_on(one) == sorted(child for child, below in alive.items() if one in below)
            assert (layers._top / one / "state").exists()
    for name in sorted(alive):
        layers.retire(name)
    assert not layers._top.exists()


def found(layers):
    return {folder.name for folder in layers._top.glob("sbx-*")}


def test_what_was_destroyed_keeps_no_more_than_its_layer(layers):
    add(layers, "sbx-parent")
    fork(layers, "sbx-parent", "sbx-child")
    layers.retire("sbx-parent")
    assert {path.name for path in (layers._top / "sbx-parent").iterdir()} == {"upper", "husk.json"}


@pytest.mark.parametrize("how", ["never was", "was destroyed", "is not whole"])
def test_nobody_comes_to_stand_on_what_is_gone(layers, how):
    add(layers, "sbx-parent")
    if how == "never was":
        below = Below(("sbx-other",))
    elif how == "was destroyed":
        fork(layers, "sbx-parent", "sbx-child")
        layers.retire("sbx-parent")
        below = Below(("sbx-parent",))
    else:
        (layers._top / "sbx-parent" / "upper").rmdir()
        below = Below(("sbx-parent",))
    with pytest.raises(SandboxNotFound):
        add(layers, "sbx-new", below)
    assert not (layers._top / "sbx-new").exists()


@pytest.mark.parametrize("where", [".new-sbx-killed", ".old-sbx-killed"])
def test_what_somebody_who_was_killed_left_without_a_record_goes_with_the_next_that_ends(layers, where):
    add(layers, "sbx-other")
    (layers._top / where / "upper").mkdir(parents=True)
    layers.retire("sbx-other")
    assert not layers._top.exists()
