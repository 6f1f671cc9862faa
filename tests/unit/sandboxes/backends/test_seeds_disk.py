"""What the seeds say of the backends on this machine's disk, and of the one that runs commands here."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from sandboxes.backends import FilesystemBackend, LocalShellBackend
from sandboxes.protocol import SandboxBackendProtocol


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    (made / "src").mkdir(parents=True)
    (made / "src" / "main.py").write_text("print(1)  # TODO\n")
    (tmp_path / "secret").write_text("outside\n")
    return made


@pytest.fixture
def virtual(root):
    return FilesystemBackend(root, virtual_mode=True)


def defaults(kind):
    return {name: one.default for name, one in inspect.signature(kind).parameters.items()}


def test_the_constructor_has_these_defaults():
    assert defaults(FilesystemBackend) == {"root_dir": None, "virtual_mode": False, "max_file_size_mb": 10}


def test_without_a_root_it_is_the_working_directory(root, monkeypatch):
    monkeypatch.chdir(root)
    assert FilesystemBackend().write("new.txt", "x").path == str(root / "new.txt")
    assert (root / "new.txt").read_text() == "x"


def test_a_virtual_path_is_one_below_the_root_and_results_say_it_so(virtual, root):
    assert virtual.read("/src/main.py").content == "print(1)  # TODO\n"
    assert [one["path"] for one in virtual.ls("/").entries] == ["/src/"]
    assert [one["path"] for one in virtual.ls("/src").entries] == ["/src/main.py"]
    assert [one["path"] for one in virtual.glob("*.py").matches] == ["/src/main.py"]
    assert [one["path"] for one in virtual.grep("TODO").matches] == ["/src/main.py"]
    assert virtual.write("/etc/passwd", "mine").path == "/etc/passwd"
    assert (root / "etc" / "passwd").read_text() == "mine"


@pytest.mark.parametrize("path", ["../secret", "/../secret", "/src/../../secret", "~/secret", "~root/secret"])
def test_what_would_lead_out_is_an_error_and_nothing_is_raised(virtual, path):
    for answer in (virtual.read(path), virtual.write(path, "x"), virtual.ls(path), virtual.edit(path, "a", "b")):
        assert answer.error is not None
        assert answer.error.startswith("Error: ")


def test_this_machines_absolute_paths_outside_of_the_root_are_not_there(virtual, tmp_path):
    outside = str(tmp_path / "secret")
    assert virtual.read(outside).error == f"Error: File '{outside}' not found"


def test_without_virtual_mode_absolute_paths_are_this_machines_and_relative_ones_begin_at_the_root(root, tmp_path):
    plain = FilesystemBackend(root)
    assert plain.read(str(tmp_path / "secret")).content == "outside\n"
    assert plain.read("src/main.py").content == "print(1)  # TODO\n"
    assert [one["path"] for one in plain.ls("src").entries] == [str(root / "src" / "main.py")]


@pytest.mark.parametrize("virtual_mode", [True, False])
def test_a_file_that_is_too_large_is_not_read(root, virtual_mode):
    (root / "large.txt").write_bytes(b"x" * 2000)
    backend = FilesystemBackend(root, virtual_mode, max_file_size_mb=0.001)
    error = backend.read("large.txt").error
    assert error is not None
    assert "too large" in error or "more than" in error
    assert backend.read("src/main.py").error is None


def test_the_disk_needs_no_update_of_a_state(virtual):
    assert virtual.write("/a.txt", "x").files_update is None
    assert virtual.edit("/a.txt", "x", "y").files_update is None


def test_grep_finds_the_same_where_there_is_no_ripgrep(virtual, monkeypatch):
    there = virtual.grep("TODO", glob="*.py")
    monkeypatch.setenv("PATH", "")
    assert virtual.grep("TODO", glob="*.py") == there
    assert len(there.matches) == 1


def test_grep_is_literal(virtual):
    assert virtual.grep("print(").matches == [{"path": "/src/main.py", "line": 1, "text": "print(1)  # TODO"}]
    assert virtual.grep("print.1").matches == []


# -- with commands


def test_the_shell_has_these_defaults():
    found = defaults(LocalShellBackend)
    assert (found["timeout"], found["max_output_bytes"]) == (120, 100_000)
    assert (found["virtual_mode"], found["env"], found["inherit_env"]) == (False, None, False)


def test_the_shell_is_a_filesystem_with_execute(root):
    shell = LocalShellBackend(root)
    assert isinstance(shell, FilesystemBackend)
    assert isinstance(shell, SandboxBackendProtocol)
    assert shell.id != LocalShellBackend(root).id


def test_commands_begin_in_the_root_and_reach_everything_virtual_mode_or_not(root, tmp_path):
    shell = LocalShellBackend(root, virtual_mode=True)
    assert Path(shell.execute("pwd").output.strip()) == root.resolve()
    assert shell.execute(f"cat {tmp_path}/secret").output == "outside\n"
    assert shell.execute("exit 3").exit_code == 3


def test_commands_see_the_environment_that_was_given_and_ours_only_when_asked(root, monkeypatch):
    monkeypatch.setenv("A_SECRET", "hidden")
    given = LocalShellBackend(root, env={"PATH": "/usr/bin:/bin", "MINE": "here"})
    assert given.execute('echo "$MINE-$A_SECRET"').output == "here-\n"
    assert LocalShellBackend(root, inherit_env=True).execute('echo "$A_SECRET"').output == "hidden\n"


def test_output_beyond_the_cap_is_cut_and_said_to_be(root):
    answer = LocalShellBackend(root, max_output_bytes=1000).execute("seq 100000")
    assert answer.truncated
    assert len(answer.output) < 2000


def test_a_command_that_takes_too_long_is_killed(root):
    answer = LocalShellBackend(root, timeout=0.2).execute("exec cat /dev/zero > /dev/null")
    assert answer.timed_out
    assert answer.exit_code == 124


def test_the_shell_says_that_it_is_not_isolated(root):
    assert LocalShellBackend(root).isolated is False
