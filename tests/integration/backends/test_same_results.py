"""The same random operations give the same results on every backend, and on a model that is a dictionary."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from langgraph.store.memory import InMemoryStore

from examples.backends.postgres import PostgresBackend
from examples.backends.s3 import S3Backend
from sandboxes.backends import CompositeBackend, FilesystemBackend, StateBackend, StoreBackend
from sandboxes.portal import portal
from sandboxes.protocol import BackendProtocol
from sandboxes.providers.base import SandboxProvider, SandboxSpec
from sandboxes.providers.docker import DockerProvider
from sandboxes.providers.local import LocalProvider
from tests.integration.backends.model import Asked, Model

NAMES = ["a", "b.txt", "c d.py", ".hid", "ünï", "new\nline", "pic.png", "-x", "*", "[a]", "{a,b}", "~", "...", "tab\t", "%41?"]
FOLDERS = ["", "sub", "sub/deep er", ".hid", "a", "mnt", "mnt/in", "./sub//"]
PATTERNS = ["*", "**", "*.txt", "*.{txt,py}", "**/*.py", "sub/*", "/*", "?", "[!a]*", "**/.hid", "[a]", "", "../*", "a[", "\\*"]
PIECES = ["", "a", "b", "aa", "é", "\n", "\r\n", "word\n", "*", "\ufeff", " ", "\0"]

somewhere = st.tuples(st.integers(0, 2), st.integers(0, 3))
"""Numbers of a folder and of a name among those of a run: few, so that operations meet."""
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
binaries = st.sampled_from([b"\0a", b"\xff\xfe", b"a\nword\xc3", b"\x89PNG a"]) | texts.map(str.encode)
needles = st.sampled_from(["a", "aa", "é", "word", "*", "", "\r", "none such"])
patterns = st.sampled_from(PATTERNS)


@contextmanager
def sandbox(provider: SandboxProvider) -> Iterator[BackendProtocol]:
    """A sandbox for the length of a test, asked in the sync form."""
    handle = portal.run(provider.create(SandboxSpec(), {"test": "same-results"}))
    try:
        attached = portal.run(provider.attach(handle))
        yield attached
        portal.run(attached.aclose())
    finally:
        portal.run(provider.destroy(handle))


def without_services(folder: Path, home: str) -> dict[str, BackendProtocol]:
    """The backends that need nothing, over new storage."""
    root = folder / home.strip("/")
    root.mkdir(parents=True)
    memories = StoreBackend(store=InMemoryStore(), namespace=("memories",))
    return {
        "state": StateBackend(),
        "state of the first format": StateBackend(file_format="v1"),
        "store": StoreBackend(store=InMemoryStore(), namespace=("test",)),
        "composite": CompositeBackend(default=StateBackend(), routes={f"{home}/mnt/": memories}),
        "filesystem": FilesystemBackend(root, virtual_mode=True),
    }


pytestmark = pytest.mark.timeout(300)  # a bucket takes its time on a busy machine
KEEP_FOLDERS = {"filesystem", "sandbox"}
"""Where a folder stays when the last file in it is deleted."""


class SameResults(RuleBasedStateMachine):
    """One run: each operation is asked of all, below a folder that this run alone has."""

    new_backends: Callable[[str], dict[str, BackendProtocol]]
    """The backends for a run in a folder that is new to all of them."""
    run_numbers: Iterator[int]
    names: Sequence[str] = NAMES

    @initialize(
        folders=st.lists(st.sampled_from(FOLDERS), min_size=3, max_size=3, unique=True),
        names=st.lists(st.integers(0, len(NAMES) - 1), min_size=3, max_size=3, unique=True),
    )
    def begin(self, folders: list[str], names: list[int]) -> None:
        self.home = f"/workspace/x{next(self.run_numbers)}"
        self.asked = {name: Asked(backend) for name, backend in type(self).new_backends(self.home).items()}
        self.models = {keeps: Model(keeps_folders=keeps) for keeps in (True, False)}
        self.folders, self.chosen = folders, ["", *(self.names[number % len(self.names)] for number in names)]
        for file in ("kept", "mnt/kept"):  # a folder that holds a file is there in every backend
            self.same("upload", file, b"")

    def place(self, at: tuple[int, int]) -> str:
        return f"{self.folders[at[0]]}/{self.chosen[at[1]]}"

    def same(self, operation: str, place: str, *arguments: Any) -> None:
        """Ask all; the models first, because they say what is right."""
        path = f"{self.home}/{place}"
        right = {keeps: getattr(model, operation)(posixpath.normpath(path), *arguments) for keeps, model in self.models.items()}
        for name, asked in self.asked.items():
            answer = getattr(asked, operation)(path, *arguments)
            assert answer == right[name in KEEP_FOLDERS], f"{name}: {operation}{(path, *arguments)}"

    @rule(at=somewhere)
    def ls(self, at: tuple[int, int]) -> None:
        self.same("ls", self.place(at))

    @rule(at=somewhere, offset=st.integers(-1, 4), limit=st.integers(0, 4))
    def read(self, at: tuple[int, int], offset: int, limit: int) -> None:
        self.same("read", self.place(at), offset, limit)

    @rule(at=somewhere, content=texts)
    def write(self, at: tuple[int, int], content: str) -> None:
        self.same("write", self.place(at), content)

    @rule(at=somewhere, old=needles, new=texts, replace_all=st.booleans())
    def edit(self, at: tuple[int, int], old: str, new: str, replace_all: bool) -> None:
        self.same("edit", self.place(at), old, new, replace_all)

    @rule(at=somewhere)
    def delete(self, at: tuple[int, int]) -> None:
        if posixpath.normpath(self.place(at)) not in ("/", "mnt"):  # what is routed elsewhere stays
            self.same("delete", self.place(at))

    @rule(at=somewhere, content=binaries)
    def upload(self, at: tuple[int, int], content: bytes) -> None:
        self.same("upload", self.place(at), content)

    @rule(at=somewhere)
    def download(self, at: tuple[int, int]) -> None:
        self.same("download", self.place(at))

    @rule(at=somewhere, pattern=patterns)
    def glob(self, at: tuple[int, int], pattern: str) -> None:
        self.same("glob", self.place(at), pattern)

    @rule(at=somewhere, pattern=needles, glob=st.none() | patterns, max_count=st.none() | st.integers(0, 3))
    def grep(self, at: tuple[int, int], pattern: str, glob: str | None, max_count: int | None) -> None:
        self.same("grep", self.place(at), pattern, glob, max_count)

    def teardown(self) -> None:
        """Whatever was done: all hold the same files."""
        if hasattr(self, "models"):
            for file in self.models[True].files:
                self.same("download", posixpath.relpath(file, self.home))
            self.same("glob", "", "**/*")


def check(runs: int, new_backends: Callable[[str], dict[str, BackendProtocol]], names: Sequence[str] = NAMES) -> None:
    members = {"new_backends": staticmethod(new_backends), "run_numbers": itertools.count(), "names": names}
    # The thirty steps of a failure say enough: to shrink them, with a sandbox, takes minutes.
    wanted = settings(
        max_examples=runs,
        stateful_step_count=30,
        deadline=None,
        phases=[Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(type("Run", (SameResults,), members), settings=wanted)


PROVIDERS = [
    pytest.param(LocalProvider, id="local"),
    pytest.param(lambda _: DockerProvider("fanfold-test/base:latest", pull="never"), id="docker", marks=pytest.mark.docker),
]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_same_operations_give_the_same_results_everywhere(provider: Any, tmp_path: Path) -> None:
    with sandbox(provider(tmp_path / "home")) as attached:
        check(60, lambda home: {"sandbox": attached, **without_services(tmp_path, home)})


def test_a_table_gives_the_same_results(postgres_backend: PostgresBackend) -> None:
    check(15, lambda _: {"postgres": postgres_backend})


def test_a_bucket_gives_the_same_results(s3_backend: S3Backend) -> None:
    plain = [name for name in NAMES if name.isprintable()]  # moto finds no object whose name has a newline
    check(3, lambda _: {"s3": s3_backend}, plain)
