import asyncio

import pytest

from sandboxes import protocol as p
from sandboxes.backends.composite import CompositeBackend
from sandboxes.backends.filesystem import FilesystemBackend
from sandboxes.backends.legacy import BackendProtocolV1 as BackendProtocol
from sandboxes.backends.legacy import adapt_backend_protocol
from sandboxes.backends.policy import Operation, PolicyBackend, PolicyRefused
from sandboxes.protocol import EditResult, FileInfo, GrepMatch, WriteResult
from tests.unit.sandboxes.backends.samples import Box, Memory, Rooted, paths

FILES = {"/open.md": "todo\n", "/deny/secret.md": "todo\n", "/docs/guide.md": "todo\n", "/denyX": "todo\n"}


@pytest.fixture
def inner():
    return Memory(FILES)


@pytest.fixture
def policy(inner):
    return PolicyBackend(inner, deny=["/deny"], read_only=["/docs/"])


def every_answer(backend, path):
    return {
        "ls": backend.ls(path).error,
        "read": backend.read(path).error,
        "read_raw": backend.read_raw(path).error,
        "grep": backend.grep("todo", path).error,
        "glob": backend.glob("*", path).error,
        "write": backend.write(path, "x").error,
        "edit": backend.edit(path, "todo", "x").error,
        "delete": backend.delete(path).error,
        "upload_files": backend.upload_files([(path, b"x")])[0].error,
        "download_files": backend.download_files([path])[0].error,
    }


# -- denied places


@pytest.mark.parametrize(
    "path",
    ["/deny", "/deny/", "/deny/secret.md", "//deny//secret.md", "/./deny/secret.md", "/deny/./secret.md", "deny/secret.md"],
)
def test_a_denied_place_is_refused_by_every_method_however_it_is_written(policy, inner, path):
    before = dict(inner.kept)
    for name, error in every_answer(policy, path).items():
        denied = error == "permission_denied" if name.endswith("_files") else "the policy denies it" in error
        assert denied, name
    assert inner.kept == before


@pytest.mark.parametrize("path", ["/a/../deny/secret.md", "/deny\0", ""])
def test_paths_that_climb_do_not_slip_by(policy, path):
    for name, error in every_answer(policy, path).items():
        assert error == "invalid_path" if name.endswith("_files") else error.startswith("Error: Path"), name


def test_denied_entries_do_not_show(policy):
    assert paths(policy.ls("/")) == ["/denyX", "/docs/", "/open.md"]
    assert paths(policy.glob("**/*")) == ["/denyX", "/docs/guide.md", "/open.md"]
    assert paths(policy.grep("todo")) == ["/denyX", "/docs/guide.md", "/open.md"]
    assert paths(policy.grep("todo", "/")) == paths(policy.grep("todo"))


def test_denied_matches_do_not_use_up_max_count():
    inner = Memory({f"/deny/{number}": "todo" for number in range(5)} | {"/x": "todo", "/y": "todo"})
    policy = PolicyBackend(inner, deny=["/deny"])
    assert policy.grep("todo", max_count=1) == p.GrepResult(
        matches=[{"path": "/x", "line": 1, "text": "todo"}], truncated=True
    )
    assert not policy.grep("todo", max_count=2).truncated


def test_a_prefix_ends_where_a_name_ends(policy):
    assert policy.read("/denyX").content == "todo\n"
    assert policy.write("/denyX2", "x").error is None


def test_what_holds_a_protected_place_cannot_be_deleted(inner):
    policy = PolicyBackend(inner, deny=["/a/deny"], read_only=["/docs/old"])
    inner.write("/a/deny/x", "")
    inner.write("/docs/old/x", "")
    assert policy.delete("/a").error == "Error: '/a' cannot be deleted: the policy protects '/a/deny'"
    assert "protects '/docs/old'" in policy.delete("/docs").error
    assert policy.delete("/").error is not None
    assert policy.delete("/docs/guide.md").error is None


def test_relative_paths_are_refused_where_nobody_knows_where_they_begin():
    policy = PolicyBackend(Box({"/workspace/deny/x": "secret"}), deny=["/workspace/deny"])
    assert policy.read("deny/x").error == "Error: Path 'deny/x' is relative: give an absolute path"


def test_relative_paths_of_a_sandbox_are_bound_too():
    policy = PolicyBackend(Rooted({"/workspace/deny/x": "secret"}), deny=["/workspace/deny"])
    assert "the policy denies it" in policy.read("deny/x").error
    assert policy.grep("secret").matches == []


def test_a_search_without_a_path_in_a_denied_working_directory_is_an_error():
    policy = PolicyBackend(Rooted({"/workspace/x": "secret"}), deny=["/workspace"])
    assert "the policy denies it" in policy.grep("secret").error
    assert "the policy denies it" in policy.glob("*").error


# -- read-only places


def test_a_read_only_place_is_read_and_not_changed(policy, inner):
    before = dict(inner.kept)
    errors = every_answer(policy, "/docs/guide.md")
    assert {name for name, error in errors.items() if error is None} == {"read", "read_raw", "grep", "download_files"}
    assert errors["write"] == "Error: '/docs/guide.md' cannot be changed: the policy makes it read-only"
    assert paths(policy.ls("/docs")) == ["/docs/guide.md"]
    assert inner.kept == before


def test_everything_can_be_read_only(inner):
    policy = PolicyBackend(inner, read_only=["/"])
    assert policy.read("/open.md").error is None
    assert "read-only" in policy.write("/new", "").error


def test_of_a_batch_the_allowed_part_happens_and_the_order_stays(policy, inner):
    files = [("/1", b"1"), ("/deny/x", b""), ("/docs/x", b""), ("/a/..", b""), ("/2", b"2")]
    answers = policy.upload_files(files)
    assert [one.path for one in answers] == [path for path, _ in files]
    assert [one.error for one in answers] == [None, "permission_denied", "permission_denied", "invalid_path", None]
    assert inner.asked == [("upload", ["/1", "/2"])]
    downloads = policy.download_files(["/deny/secret.md", "/2", "/docs/guide.md"])
    assert [(one.content, one.error) for one in downloads] == [(None, "permission_denied"), (b"2", None), (b"todo\n", None)]


@pytest.mark.parametrize("prefix", ["deny", "/a/../b", ""])
def test_a_prefix_that_cannot_be_is_refused(inner, prefix):
    with pytest.raises(ValueError, match="deny prefix"):
        PolicyBackend(inner, deny=[prefix])


def test_one_prefix_in_place_of_a_list_is_refused(inner):
    with pytest.raises(TypeError, match="list of prefixes"):
        PolicyBackend(inner, deny="/deny")


# -- hooks


def test_the_hooks_see_each_operation_and_its_result(inner):
    seen = []
    policy = PolicyBackend(inner, before=seen.append, after=lambda operation, result: seen.append((operation, result)))
    result = policy.edit("//open.md", "todo", "done")
    arguments = {"file_path": "/open.md", "old_string": "todo", "new_string": "done", "replace_all": False}
    operation = Operation("edit", ("/open.md",), arguments)
    assert seen == [operation, (operation, result)]
    assert result.occurrences == 1


def test_every_method_passes_the_hooks_by_its_own_name(inner):
    seen = []
    every_answer(PolicyBackend(inner, before=lambda operation: seen.append(operation.name)), "/open.md")
    assert seen == list(every_answer(inner, "/open.md"))


def test_a_hook_that_refuses_gives_the_model_its_reason(inner):
    def inspect(operation):
        if operation.name != "ls":
            raise PolicyRefused("ten writes a minute are enough")

    policy = PolicyBackend(inner, before=inspect)
    errors = every_answer(policy, "/open.md")
    assert set(errors.values()) - {errors["ls"]} == {"Error: ten writes a minute are enough"}
    assert inner.kept["/open.md"]["content"] == "todo\n"


def test_a_hook_can_look_into_content(inner):
    def no_keys(operation):
        if "AKIA" in str(operation.arguments.get("content", "")):
            raise PolicyRefused("this looks like a key")

    policy = PolicyBackend(inner, before=no_keys)
    assert policy.write("/k", "AKIA1234").error == "Error: this looks like a key"
    assert policy.write("/k", "fine").error is None


def test_the_audit_sees_what_the_prefixes_refused(inner):
    seen = []
    policy = PolicyBackend(inner, deny=["/deny"], after=lambda operation, result: seen.append((operation.paths, result.error)))
    policy.read("/deny/secret.md")
    policy.read("/x/../y")
    assert seen == [
        (("/deny/secret.md",), "Error: '/deny/secret.md' cannot be used: the policy denies it"),
        (("/x/../y",), "Error: Path '/x/../y' must not contain '..'"),
    ]


def test_a_hook_that_fails_is_not_hidden(inner):
    def broken(operation):
        raise ZeroDivisionError("a defect")

    with pytest.raises(ZeroDivisionError):
        PolicyBackend(inner, before=broken).ls("/")
    assert "/open.md" in inner.kept


async def test_an_async_hook_is_awaited_in_both_forms(inner):
    seen = []

    async def before(operation):
        await asyncio.sleep(0)
        seen.append(operation.name)
        if operation.name == "write":
            raise PolicyRefused("no")

    policy = PolicyBackend(inner, before=before)
    assert (await policy.awrite("/x", "")).error == "Error: no"
    assert (await asyncio.to_thread(policy.write, "/x", "")).error == "Error: no"
    await policy.als("/")
    assert seen == ["write", "write", "ls"]


async def test_the_async_forms_are_bound_in_the_same_way(policy):
    assert await policy.als("/") == policy.ls("/")
    assert await policy.aread("/deny/x") == policy.read("/deny/x")
    assert await policy.aread_raw("/docs/guide.md") == policy.read_raw("/docs/guide.md")
    assert await policy.agrep("todo", max_count=1) == policy.grep("todo", max_count=1)
    assert await policy.aglob("*") == policy.glob("*")
    assert await policy.awrite("/docs/x", "") == policy.write("/docs/x", "")
    assert await policy.aedit("/deny/x", "a", "b") == policy.edit("/deny/x", "a", "b")
    assert await policy.adelete("/docs") == policy.delete("/docs")
    assert await policy.aupload_files([("/deny/x", b"")]) == policy.upload_files([("/deny/x", b"")])
    assert await policy.adownload_files(["/deny/x", "/open.md"]) == policy.download_files(["/deny/x", "/open.md"])


# -- commands


async def test_prefixes_do_not_bind_a_shell_so_commands_are_refused():
    policy = PolicyBackend(Box(), deny=["/deny"])
    assert isinstance(policy, p.SandboxBackendProtocol)
    refused = policy.execute("cat /deny/x")
    assert (refused.exit_code, refused.output[:6]) == (126, "Error:")
    assert await policy.aexecute("cat /deny/x") == refused
    assert PolicyBackend(Box(), read_only=["/docs"]).execute("ls").exit_code == 126


def test_commands_run_where_the_sandbox_enforces_the_same_or_nothing_is_protected():
    assert PolicyBackend(Box(), deny=["/deny"], allow_execute=True).execute("ls").output == "ls None"
    assert PolicyBackend(Box()).execute("ls", timeout=3).output == "ls 3"
    assert PolicyBackend(Box()).id == "box-1"
    assert not isinstance(PolicyBackend(Memory()), p.SandboxBackendProtocol)


def test_hooks_see_commands():
    seen = []

    def before(operation):
        if "rm" in operation.arguments["command"]:
            raise PolicyRefused("no rm here")

    policy = PolicyBackend(Box(), before=before, after=lambda operation, result: seen.append(result.output))
    assert policy.execute("rm x") == p.ExecuteResponse(output="Error: no rm here", exit_code=126)
    assert policy.execute("ls").exit_code == 0
    assert seen == ["Error: no rm here", "ls None"]


# -- together with others


def test_a_policy_under_a_route_binds_and_names_the_whole_path():
    backend = CompositeBackend(Memory(), {"/docs": PolicyBackend(Memory({"/deny/x": ""}), deny=["/deny"])})
    assert backend.read("/docs/deny/x").error == "Error: '/docs/deny/x' cannot be used: the policy denies it"
    assert backend.ls("/docs").entries == []


def test_a_policy_over_a_composite_binds_its_routes():
    policy = PolicyBackend(CompositeBackend(Memory(), {"/memories": Memory({"/x": "todo"})}), deny=["/memories"])
    assert policy.grep("todo").matches == []
    assert policy.ls("/").entries == []
    assert "the policy denies it" in policy.read("/memories/x").error


# -- the seeds' own, as they are written


class GuardedBackend(FilesystemBackend):
    def __init__(self, *, deny_prefixes: list[str], **kwargs):
        super().__init__(**kwargs)
        self.deny_prefixes = [p if p.endswith("/") else p + "/" for p in deny_prefixes]

    def write(self, file_path: str, content: str) -> WriteResult:
        if any(file_path.startswith(p) for p in self.deny_prefixes):
            return WriteResult(error=f"Writes are not allowed under {file_path}")
        return super().write(file_path, content)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        if any(file_path.startswith(p) for p in self.deny_prefixes):
            return EditResult(error=f"Edits are not allowed under {file_path}")
        return super().edit(file_path, old_string, new_string, replace_all)


class PolicyWrapper(BackendProtocol):
    def __init__(self, inner: BackendProtocol, deny_prefixes: list[str] | None = None):
        self.inner = inner
        self.deny_prefixes = [p if p.endswith("/") else p + "/" for p in (deny_prefixes or [])]

    def _deny(self, path: str) -> bool:
        return any(path.startswith(p) for p in self.deny_prefixes)

    def ls_info(self, path: str) -> list[FileInfo]:
        return self.inner.ls_info(path)

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> str:
        return self.inner.read(file_path, offset=offset, limit=limit)

    def grep_raw(self, pattern: str, path: str | None = None, glob: str | None = None) -> list[GrepMatch] | str:
        return self.inner.grep_raw(pattern, path, glob)

    def glob_info(self, pattern: str, path: str = "/") -> list[FileInfo]:
        return self.inner.glob_info(pattern, path)

    def write(self, file_path: str, content: str) -> WriteResult:
        if self._deny(file_path):
            return WriteResult(error=f"Writes are not allowed under {file_path}")
        return self.inner.write(file_path, content)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        if self._deny(file_path):
            return EditResult(error=f"Edits are not allowed under {file_path}")
        return self.inner.edit(file_path, old_string, new_string, replace_all)


async def test_the_seeds_guarded_backend_guards_both_forms(tmp_path):
    backend = GuardedBackend(deny_prefixes=["/secrets"], root_dir=tmp_path, virtual_mode=True)
    refused = "Writes are not allowed under /secrets/key"
    assert backend.write("/secrets/key", "x").error == (await backend.awrite("/secrets/key", "x")).error == refused
    assert (await backend.aedit("/secrets/key", "x", "y")).error == "Edits are not allowed under /secrets/key"
    assert backend.write("/open", "x").error is None
    assert [path.name for path in tmp_path.iterdir()] == ["open"]


async def test_the_seeds_policy_wrapper_works_over_a_backend_of_ours(inner):
    backend = adapt_backend_protocol(PolicyWrapper(inner, ["/deny"]))
    assert (await backend.awrite("/deny/x", "")).error == "Writes are not allowed under /deny/x"
    assert backend.edit("/deny/secret.md", "todo", "x").error == "Edits are not allowed under /deny/secret.md"
    assert backend.write("/new.md", "one\ntwo\n").path == "/new.md"
    assert backend.read("/new.md", 1, 1).content == "two\n"
    assert backend.download_files(["/new.md", "/none"])[0].content == b"one\ntwo\n"
    assert backend.upload_files([("/new.md", b"three")])[0].error is None
    assert inner.kept["/new.md"]["content"] == "three"
    with pytest.warns(DeprecationWarning, match="ls_info"):
        assert "/open.md" in paths(backend.ls("/"))
    with pytest.warns(DeprecationWarning, match="grep_raw"):
        assert backend.grep("todo", "/docs").matches == [{"path": "/docs/guide.md", "line": 1, "text": "todo"}]
    with pytest.warns(DeprecationWarning, match="glob_info"):
        assert paths(backend.glob("*.md", "/docs")) == ["/docs/guide.md"]
