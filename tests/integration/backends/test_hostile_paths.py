"""Hundreds of paths that try to lead out, on every backend: nothing outside is read or changed, and nothing raises or hangs."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from sandboxes import protocol as p
from sandboxes.backends import (
    CompositeBackend,
    FilesystemBackend,
    LocalShellBackend,
    PolicyBackend,
    StateBackend,
    StoreBackend,
)
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxProvider, SandboxSpec
from sandboxes.providers.docker import DockerProvider
from sandboxes.providers.local import LocalProvider
from tests.integration.backends import hostile_paths
from tests.integration.backends.hostile_paths import HIDDEN, SECRET, Arena

Make = Callable[[Path], p.BackendProtocol]
MakeProvider = Callable[[Path], SandboxProvider]

OF_THIS_MACHINE = ("root:x:0:0", "PATH=/", "PATH=\\x2f")
"""What is in /etc/passwd, and in the environment of a process."""


def disk(root: Path) -> FilesystemBackend:
    return FilesystemBackend(root, virtual_mode=True)


IN_MEMORY: dict[str, Make] = {
    "state": lambda _: StateBackend(),
    "state of the first format": lambda _: StateBackend(file_format="v1"),
    "store": lambda _: StoreBackend(store=InMemoryStore(), namespace=("u",)),
}
ON_DISK: dict[str, Make] = {
    "disk": disk,
    "shell": lambda root: LocalShellBackend(root, virtual_mode=True),
    "composite": lambda root: CompositeBackend(disk(root), {"/routed/": StateBackend()}),
    "policy": lambda root: PolicyBackend(disk(root), deny=["/denied"], read_only=["/kept"]),
}
EVERY = {**IN_MEMORY, **ON_DISK}


class Mounted:
    """Asks a backend that is mounted in a composite for the paths that lie below its place."""

    def __init__(self, root: Path) -> None:
        self.backend = CompositeBackend(StateBackend(), {"/mnt/": disk(root)})

    def at(self, path: str) -> str:
        return f"/mnt{path}" if path.startswith("/") else f"/mnt/{path}"


READING: dict[str, tuple[type, Callable[[p.BackendProtocol, str], Any]]] = {
    "ls": (p.LsResult, lambda backend, path: backend.ls(path)),
    "read": (p.ReadResult, lambda backend, path: backend.read(path)),
    "read_raw": (p.ReadRawResult, lambda backend, path: backend.read_raw(path)),
    "grep in it": (p.GrepResult, lambda backend, path: backend.grep("decoy", path)),
    "grep for its name": (p.GrepResult, lambda backend, path: backend.grep("decoy", "/", path)),
    "glob in it": (p.GlobResult, lambda backend, path: backend.glob("**", path)),
    "glob for it": (p.GlobResult, lambda backend, path: backend.glob(path, "/")),
    "download": (p.FileDownloadResponse, lambda backend, path: backend.download_files([path])[0]),
}
CHANGING: dict[str, tuple[type, Callable[[p.BackendProtocol, str], Any]]] = {
    "write": (p.WriteResult, lambda backend, path: backend.write(path, "mine")),
    "edit": (p.EditResult, lambda backend, path: backend.edit(path, "content", "changed")),
    "upload": (p.FileUploadResponse, lambda backend, path: backend.upload_files([(path, b"mine")])[0]),
    "upload again": (p.FileUploadResponse, lambda backend, path: backend.upload_files([(path, b"yours")])[0]),
    "delete": (p.DeleteResult, lambda backend, path: backend.delete(path)),
}


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    made = Arena.made_in(tmp_path)
    monkeypatch.setenv("HOME", str(made.outside))
    monkeypatch.chdir(made.outside)
    return made


def leaks(answer: object) -> list[str]:
    """What an answer tells that it should not know."""
    told = repr(answer)
    if isinstance(answer, p.ReadResult | p.ReadRawResult | p.FileDownloadResponse):
        told += repr(getattr(answer, "content", None))
    return [one for one in (SECRET, HIDDEN, *OF_THIS_MACHINE) if one in told]


def without_repetition(arena: Arena) -> list[str]:
    """The attacks without those that differ in their beginning only."""
    return [path for path in arena.changing() if not path.startswith(("/./", "//", "sub/", "/sub/deep/"))]


def attacked(
    backend: p.BackendProtocol, path: str, operations: dict[str, tuple[type, Callable[[p.BackendProtocol, str], Any]]]
) -> None:
    for name, (kind, operation) in operations.items():
        answer = operation(backend, path)
        assert isinstance(answer, kind), f"{name}({path!r:.200})"
        assert leaks(answer) == [], f"{name}({path!r:.200})"


# -- the corpus itself


def test_there_are_more_than_three_hundred_attacks(arena: Arena) -> None:
    assert len(set(arena.changing())) > 500
    assert len(set(arena.reading())) == len(set(arena.changing())) + len(hostile_paths.HOST)


def test_without_containment_the_links_lead_to_the_decoy_and_the_tests_would_see_it(arena: Arena) -> None:
    backend = FilesystemBackend(arena.root)
    led = [name for name in hostile_paths.LINKS if leaks(backend.ls(name)) or leaks(backend.read(name))]
    assert len(led) >= 15
    before = arena.fingerprint()
    backend.upload_files([("dangling", b"x")])
    assert arena.fingerprint() != before


# -- one after the other


@pytest.mark.parametrize("name", EVERY)
def test_no_path_leads_out(arena: Arena, name: str) -> None:
    arena.lead_to_this_machine()
    before, backend = arena.fingerprint(), EVERY[name](arena.root)
    for path in arena.reading():
        attacked(backend, path, READING)
    assert arena.fingerprint() == before


@pytest.mark.parametrize("name", EVERY)
def test_no_path_changes_anything_outside(arena: Arena, name: str) -> None:
    before, backend = arena.fingerprint(), EVERY[name](arena.root)
    for path in arena.changing():
        attacked(backend, path, CHANGING)
        if name in ON_DISK:
            assert arena.fingerprint() == before, f"{path!r:.200}"
            arena.restore()


def test_no_path_below_a_route_leads_out(arena: Arena) -> None:
    mounted, before = Mounted(arena.root), arena.fingerprint()
    for path in without_repetition(arena):
        attacked(mounted.backend, mounted.at(path), {**READING, **CHANGING})
        assert arena.fingerprint() == before, f"{path!r:.200}"
        arena.restore()


async def test_the_async_forms_lead_no_further(arena: Arena) -> None:
    backend, before = disk(arena.root), arena.fingerprint()
    for path in [*hostile_paths.LINKS, "../outside/secret", f"{arena.outside}/secret", "pipe", "a\0b", "\ud800"]:
        answers = [
            await backend.als(path), await backend.aread(path), await backend.aread_raw(path),
            await backend.agrep("decoy", path), await backend.aglob("**", path), await backend.awrite(path, "mine"),
            await backend.aedit(path, "content", "changed"), *await backend.aupload_files([(path, b"mine")]),
            *await backend.adownload_files([path]), await backend.adelete(path),
        ]  # fmt: skip
        assert [leaks(answer) for answer in answers] == [[]] * len(answers), path
        arena.restore()
    assert arena.fingerprint() == before


SANDBOXES = [
    pytest.param(LocalProvider, 1, id="local"),
    pytest.param(lambda _: DockerProvider("fanfold-test/base:latest", pull="never"), 1, id="docker", marks=pytest.mark.docker),
    pytest.param(
        lambda _: DockerProvider("fanfold-test/nopython:latest", pull="never"), 12, id="plain exec", marks=pytest.mark.docker
    ),
]
"""How to make a provider, and of how many paths one is tried: without Python each operation starts processes."""


@contextmanager
def a_sandbox(provider: SandboxProvider, arena: Arena) -> Iterator[p.SandboxBackendProtocol]:
    """A sandbox with the same links in its workspace, which lead to where the decoy is outside of it."""
    handle = portal.run(provider.create(SandboxSpec(), {"test": "hostile-paths"}))
    try:
        attached = portal.run(provider.attach(handle))
        links = {name: target.format(outside=arena.outside, root=arena.root) for name, target in hostile_paths.LINKS.items()}
        made = [f"ln -sfn '{target}' '{name}'" for name, target in links.items()]
        done = attached.execute("mkdir -p sub/deep && mkfifo pipe && " + " && ".join(made))
        assert done.exit_code == 0, done.output
        yield attached
        portal.run(attached.aclose())
    finally:
        portal.run(provider.destroy(handle))
        portal.run(provider.aclose())


def of_a_sandbox(arena: Arena) -> list[str]:
    """The attacks as they are made in its workspace. What it has above that is its own, and too large to be searched."""
    chosen = [path for path in without_repetition(arena) if path.strip("/.") and not path.lstrip("/").startswith("parent")]
    return [f"/workspace{path}" if path.startswith("/") and str(arena.outside) not in path else path for path in chosen]


@pytest.mark.parametrize(("provider", "one_of"), SANDBOXES)
def test_no_path_leads_out_of_a_sandbox(provider: MakeProvider, one_of: int, arena: Arena, tmp_path: Path) -> None:
    before, last = arena.fingerprint(), CHANGING["delete"]
    search = {"glob for it": (p.GlobResult, lambda backend, path: backend.glob(path, ".")),
              "grep for its name": (p.GrepResult, lambda backend, path: backend.grep("decoy", ".", path))}  # fmt: skip
    kept = {name: one for name, one in CHANGING.items() if one is not last}
    with a_sandbox(provider(tmp_path / "home"), arena) as sandbox:
        for operations in ({**READING, **search}, kept, {"delete": last}):
            for path in of_a_sandbox(arena)[::one_of]:
                for name, (kind, operation) in operations.items():
                    answer = operation(sandbox, path)
                    assert isinstance(answer, kind), f"{name}({path!r:.200})"
                    assert SECRET not in repr(answer), f"{name}({path!r:.200})"
                    assert HIDDEN not in repr(answer), f"{name}({path!r:.200})"
    assert arena.fingerprint() == before


DIG = """
import os
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
"""
CHAIN = """
import os
for number in range(1500):
    os.symlink(f"link{number + 1}", f"link{number}")
"""


def test_folders_and_links_without_end_leave_a_sandbox_well(arena: Arena, tmp_path: Path) -> None:
    with a_sandbox(LocalProvider(tmp_path / "home"), arena) as sandbox:
        assert sandbox.execute(f"mkdir deep chain && cd deep && python3 -c '{DIG}'").exit_code == 0
        assert sandbox.execute(f"cd chain && python3 -c '{CHAIN}'").exit_code == 0
        for _ in range(10):  # more often than the helper has threads
            for path in ("deep", "chain/link0"):
                for kind, operation in {**READING, **CHANGING}.values():
                    assert isinstance(operation(sandbox, path), kind)
        assert sandbox.write("after", "x").error is None


# -- while somebody changes the tree


class Swapping:
    """A thread that swaps `flip`, a folder or a file of the root, for a link to the decoy and back, as fast as it can."""

    def __init__(self, arena: Arena, *, folder: bool) -> None:
        self._there, self._aside, self._link = (arena.root / name for name in ("flip", "aside", "trap"))
        self._target = arena.outside if folder else arena.outside / "secret"
        self._folder = folder
        self._over = threading.Event()
        self.swaps = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Swapping:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            with suppress(OSError):  # what it moves may have just been deleted or replaced
                self._swap()

    def _swap(self) -> None:
        if self._aside.exists():
            shutil.rmtree(self._aside)  # it could not go back, because an attack has made a new one
        if not os.path.lexists(self._link):
            self._link.symlink_to(self._target)
        if not os.path.lexists(self._there):
            self._make()
        if stat.S_ISLNK(self._there.lstat().st_mode):
            self._there.rename(self._link)
            return
        if self._folder:
            self._there.rename(self._aside)
            self._link.rename(self._there)
            self._there.rename(self._link)
            self._aside.rename(self._there)
        else:
            self._link.rename(self._there)
        self.swaps += 1

    def _make(self) -> None:
        if self._folder:
            (self._there / "sub").mkdir(parents=True)
            (self._there / "secret").write_text("mine")
        else:
            self._there.write_text("mine")


@pytest.mark.parametrize("folder", [True, False], ids=["folder", "file"])
@pytest.mark.parametrize("name", ON_DISK)
def test_what_is_swapped_for_a_link_during_an_operation_leads_nowhere(arena: Arena, name: str, folder: bool) -> None:
    backend, before = ON_DISK[name](arena.root), arena.fingerprint()
    paths = ["/flip/secret", "/flip/sub/secret", "/flip"] if folder else ["/flip"]
    rounds = 0
    with Swapping(arena, folder=folder) as swapping:
        while rounds < 60 or swapping.swaps < 60:
            rounds += 1
            for path in paths:
                attacked(backend, path, {**READING, **CHANGING})
    assert arena.fingerprint() == before


# -- the policy


@pytest.mark.parametrize("spelling", [
    "/denied/secret", "denied/secret", "//denied/secret", "/./denied/secret", "/denied//secret", "/denied/./secret",
    "/denied/secret/", "/denied/secret/.", "./denied/secret", "/sub/../denied/secret", "/denied/../denied/secret",
    "/denied/sub/../secret", "///denied///secret", "/denied/secret//", "/.//./denied/secret",
])  # fmt: skip
def test_a_denied_place_is_denied_however_it_is_spelled(arena: Arena, spelling: str) -> None:
    (arena.root / "denied").mkdir()
    (arena.root / "denied" / "secret").write_text(SECRET)
    (arena.root / "denied" / HIDDEN).write_text("")
    backend = ON_DISK["policy"](arena.root)
    attacked(backend, spelling, {**READING, **CHANGING})
    assert (arena.root / "denied" / "secret").read_text() == SECRET
