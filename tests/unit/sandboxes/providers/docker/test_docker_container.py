"""What is asked of the engine for a spec."""

import pytest

from sandboxes.errors import InvalidSpec
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.docker import container, layout
from sandboxes.providers.docker.users import NOBODY_IN_PARTICULAR, ROOT
from sandboxes.providers.ids import is_sandbox_id

SANDBOX = "sbx-0123456789abcdef"


def asked(user=NOBODY_IN_PARTICULAR, hidden_files=(), **fields):
    plan = container.Plan(SANDBOX, "example:1", user, "then", "later", {"run": "7"}, frozenset(hidden_files), "/vol/nothing")
    return container.configuration(SandboxSpec(**fields), plan, "1.41")


def host(**fields):
    return asked(**fields)["host_config"]


def test_a_sandbox_has_no_rights_no_network_and_limits_by_default():
    config = host()
    assert config["CapDrop"] == ["ALL"]
    assert not config.get("CapAdd")
    assert config["SecurityOpt"] == ["no-new-privileges:true"]
    assert config["NetworkMode"] == "none"
    assert config["ReadonlyRootfs"] is True
    assert config["Init"] is True
    assert config["PidsLimit"] == 1024
    assert config["LogConfig"]["Type"] == "none"
    assert not config.get("Privileged")


def test_limits_reach_the_engine_and_swap_does_not_lift_the_memory_limit():
    config = host(resources={"cpu": 1.5, "memory": "1GiB", "pids": 20})
    assert config["NanoCpus"] == 1_500_000_000
    assert config["Memory"] == config["MemorySwap"] == 1024**3
    assert config["PidsLimit"] == 20


def test_a_public_network_is_the_bridge():
    assert host(network="public")["NetworkMode"] == "bridge"


def test_only_root_with_a_writable_system_gets_what_package_managers_need():
    assert host(user=ROOT, system="overlay")["CapAdd"] == list(container.PACKAGE_CAPABILITIES)
    assert not host(user=ROOT).get("CapAdd")
    assert not host(system="overlay").get("CapAdd")


def test_a_disk_limit_holds_for_every_place_that_can_be_written():
    config = host(resources={"disk": "10MiB"})
    limited = {place: options for place, options in config["Tmpfs"].items() if f"size={10 * 1024**2}" in options}
    assert set(limited) == {"/workspace", layout.STATE, layout.HOME, "/tmp"}
    assert [mount["Target"] for mount in config["Mounts"]] == [layout.TOOLBOX]


def test_the_toolbox_cannot_be_changed_from_inside():
    [toolbox] = [mount for mount in host()["Mounts"] if mount["Target"] == layout.TOOLBOX]
    assert toolbox["ReadOnly"] is True


def test_what_a_fork_writes_can_only_be_looked_at_in_its_layer():
    under = container.Under("sbx-fedcba9876543210", ("below",), ("/vol/below",), 0o755)
    plan = container.Plan(SANDBOX, "example:1", NOBODY_IN_PARTICULAR, "then", "later", under=under)
    mounts = container.configuration(SandboxSpec(), plan, "1.41")["host_config"]["Mounts"]
    [seen] = [mount for mount in mounts if mount["Target"] == layout.LAYER]
    assert (seen["Source"], seen["ReadOnly"]) == (layout.layer_volume(SANDBOX), True)
    assert layout.LAYER not in {mount["Target"] for mount in host()["Mounts"]}


def test_mounts_can_only_be_read(tmp_path):
    config = host(
        mounts=[
            {"target": "/data", "source": str(tmp_path)},
            {"target": "/usr/share"},
            {"target": "/secret", "mode": "hidden"},
            {"target": "/etc/passwd", "mode": "hidden"},
        ],
        hidden_files=["/etc/passwd"],
    )
    bound = {mount["Target"]: mount for mount in config["Mounts"] if mount["Type"] == "bind"}
    assert {target: mount["Source"] for target, mount in bound.items()} == {
        "/data": str(tmp_path),
        "/etc/passwd": "/vol/nothing",
    }
    assert all(mount["ReadOnly"] for mount in bound.values())
    assert "mode=0000" in config["Tmpfs"]["/secret"]
    assert set(container.READONLY_PATHS) < set(config["ReadonlyPaths"])
    assert "/usr/share" in config["ReadonlyPaths"]


def test_labels_tell_whose_a_sandbox_is():
    marks = asked()["labels"]
    assert marks[layout.SANDBOX_LABEL] == SANDBOX
    assert marks[layout.USER_LABEL_PREFIX + "run"] == "7"


def test_the_environment_of_the_spec_wins():
    assert asked()["environment"]["HOME"] == layout.HOME
    assert asked(env={"HOME": "/workspace"})["environment"]["HOME"] == "/workspace"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"workdir": "/"}, "choose a path"),
        ({"workdir": "/proc/x"}, "choose a path"),
        ({"workdir": "/.fanfold/state"}, "choose a path"),
        ({"mounts": [{"target": "/dev"}]}, "choose a path"),
        ({"mounts": [{"target": "/a"}, {"target": "/a/"}]}, "given twice"),
        ({"mounts": [{"target": "/workspace"}]}, "the working directory itself"),
        ({"mounts": [{"target": "/a", "mode": "hidden", "source": "/tmp"}]}, "has no source"),
        ({"mounts": [{"target": "/a", "source": "/no/such/place"}]}, "does not exist on this machine"),
    ],
)
def test_places_that_would_collide_are_refused(fields, reason):
    with pytest.raises(InvalidSpec, match=reason):
        container.check_places(SandboxSpec(**fields))


def test_seconds_are_rounded_up_for_a_shell_that_counts_whole_ones():
    assert layout.boot_command("/w", 1.2, None)[2:] == ["/w", "2", "0"]
    assert layout.boot_command("/w", 3600.0, 0.5)[2:] == ["/w", "3600", "1"]


@pytest.mark.parametrize("text", ["", "postgres", "sbx-", "sbx-0123456789abcdeg", "sbx-0123456789abcdef\n", "../sbx"])
def test_only_our_own_ids_are_taken_for_sandboxes(text):
    assert not is_sandbox_id(text)
    assert is_sandbox_id(SANDBOX)
