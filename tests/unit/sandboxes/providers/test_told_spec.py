"""What a handle tells of the spec: enough for a fork, no secret, and no path of a machine."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.errors import InvalidSpec
from sandboxes.providers.base import Mount, SandboxHandle, SandboxSpec

specs = st.builds(
    SandboxSpec,
    image=st.none() | st.just("some/image:1"),
    system=st.sampled_from(["read-only", "overlay"]),
    workdir=st.sampled_from(["/workspace", "/a/b"]),
    env=st.dictionaries(st.text(min_size=1), st.just("s3cret-value")),
    user=st.none() | st.just("12:34"),
    network=st.sampled_from(["none", "public"]),
    lifetime=st.floats(1, 1e6),
    idle_timeout=st.none() | st.floats(1, 1e6),
    mounts=st.lists(st.builds(Mount, target=st.sampled_from(["/x", "/y/z"]), mode=st.just("hidden"))).map(tuple),
)


def handle(spec):
    told = json.loads(json.dumps(spec.told()))
    return SandboxHandle("here", "sbx-0000000000000000", data=told)


@given(specs)
def test_a_handle_tells_all_of_the_spec_but_its_environment(spec):
    assert handle(spec).spec == spec.model_copy(update={"env": {}})
    assert "s3cret-value" not in json.dumps(spec.told())


@pytest.mark.parametrize(
    "spec",
    [SandboxSpec(rootfs="/secret/place"), SandboxSpec(mounts=(Mount(target="/data", source="/secret/place"),))],
    ids=["rootfs", "mounts"],
)
def test_paths_of_a_machine_are_not_told_and_what_lacks_them_is_no_whole_spec(spec):
    made = handle(spec)
    assert "/secret/place" not in json.dumps(made.to_json())
    assert made.told_spec.workdir == "/workspace"
    with pytest.raises(InvalidSpec, match="give a spec"):
        _ = made.spec


@pytest.mark.parametrize("data", [{}, {"spec": 7}, {"spec": {"no": "such"}}, {"spec": {}, "mounts": 3}])
def test_a_handle_that_tells_no_spec_says_so(data):
    with pytest.raises(InvalidSpec):
        _ = SandboxHandle("here", "sbx-0000000000000000", data=data).spec
