"""What a composite is made of."""


import pytest

from sandboxes import protocol as p
from sandboxes.backends.composite import CompositeBackend
from tests.unit.sandboxes.backends.samples import Box, Memory, paths


async def test_a_composite_over_a_sandbox_is_a_sandbox():
    backend = CompositeBackend(Box(), {"/notes": Memory()})
    assert isinstance(backend, p.SandboxBackendProtocol)
    assert isinstance(backend, CompositeBackend)
    assert backend.id == "box-1"
    assert backend.execute("ls", timeout=3).output == (await backend.aexecute("ls", timeout=3)).output == "ls 3"
    assert not isinstance(CompositeBackend(Memory(), {"/box": Box()}), p.SandboxBackendProtocol)


def test_a_subclass_of_a_composite_is_a_sandbox_in_the_same_way():
    class Mine(CompositeBackend):
        def __init__(self, box):
            super().__init__(box)

    assert isinstance(Mine(Box()), p.SandboxBackendProtocol)
    assert isinstance(Mine(Box()), Mine)
    assert not isinstance(Mine(Memory()), p.SandboxBackendProtocol)




def test_composites_nest():
    inner = CompositeBackend(Memory({"/i.md": "todo"}), {"/deep": Memory({"/d.md": "todo"})})
    outer = CompositeBackend(Memory({"/o.md": "todo"}), {"/in": inner})
    assert outer.read("/in/deep/d.md").content == "todo"
    assert paths(outer.grep("todo")) == ["/in/deep/d.md", "/in/i.md", "/o.md"]
    assert paths(outer.glob("in/deep/*.md")) == ["/in/deep/d.md"]
    assert outer.read("/in/deep/x").error == "Error: File '/in/deep/x' not found"


@pytest.mark.parametrize("route", ["", "/", "memories/", "/a/../b", "/a\0", "//"])
def test_routes_that_cannot_be_are_refused(route):
    with pytest.raises(ValueError, match="route"):
        CompositeBackend(Memory(), {route: Memory()})


def test_one_folder_cannot_be_routed_twice():
    with pytest.raises(ValueError, match="twice"):
        CompositeBackend(Memory(), {"/a": Memory(), "/a/": Memory()})


def test_what_is_no_backend_is_refused():
    with pytest.raises(TypeError, match="not a backend"):
        CompositeBackend(Memory(), {"/a": object()})


@pytest.mark.parametrize(("given", "root"), [("/", "/"), ("/artifacts/", "/artifacts"), ("//a/./b", "/a/b")])
def test_the_artifacts_root_is_normalized(given, root):
    assert CompositeBackend(Memory(), artifacts_root=given).artifacts_root == root


def test_an_artifacts_root_must_be_absolute():
    with pytest.raises(ValueError, match="artifacts_root"):
        CompositeBackend(Memory(), artifacts_root="artifacts")


def test_a_factory_as_a_child_is_made_into_a_backend():
    with pytest.warns(DeprecationWarning, match="factories") as caught:
        backend = CompositeBackend(lambda rt: Memory(), {"/m": lambda rt: Memory()})
    assert backend.write("/m/x", "y").path == "/m/x"
    assert len(caught) == 2
