"""A composite behaves as one backend that holds everything: routes do not show but in who keeps what."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes.backends.composite import CompositeBackend
from sandboxes.backends.policy import PolicyBackend
from tests.unit.sandboxes.backends.samples import Memory

KEPT = ("/keep", "/a/keep", "/a/b/keep", "/.c/d/keep")
"""A file in each backend that is never deleted: in the one backend, folders are there only with a file in them."""

names = st.sampled_from(["a", "b", "c", "ab", ".c", "d", "x.md", ".h"])
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
roots = st.one_of(st.none(), st.just("/"), paths)
segments = st.sampled_from(["*", "**", "a", "b", "a*", ".c", "?", "*.md", "{a,.c}", "[ab]", "d", "keep", "{a/b,.c/d}", "[!a]*"])
patterns = st.tuples(st.sampled_from(["", "/"]), st.lists(segments, min_size=1, max_size=4)).map(
    lambda pair: pair[0] + "/".join(pair[1])
)
contents = st.sampled_from(["", "todo", "todo\ntodo\n", "other\n"])
operations = st.one_of(
    st.tuples(st.just("write"), paths, contents),
    st.tuples(st.just("edit"), paths, st.sampled_from(["todo", "other"]), st.sampled_from(["done", ""]), st.booleans()),
    st.tuples(st.just("read"), paths),
    st.tuples(st.just("read_raw"), paths),
    st.tuples(st.just("ls"), st.one_of(st.just("/"), paths)),
    st.tuples(st.just("delete"), paths),
    st.tuples(st.just("glob"), patterns, roots),
    st.tuples(st.just("grep"), st.sampled_from(["todo", "kept"]), roots, st.one_of(st.none(), patterns)),
    st.tuples(st.just("upload_files"), st.lists(st.tuples(paths, contents.map(str.encode)), max_size=4)),
    st.tuples(st.just("download_files"), st.lists(paths, max_size=4)),
)


def holds_a_kept_file(path):
    return any(kept.startswith(path + "/") or kept == path for kept in KEPT)


def shown(result):
    """A result without times."""
    if isinstance(result, list):
        return [vars(one) for one in result]
    fields = dict(vars(result))
    for name in ("entries", "matches"):
        if fields.get(name) is not None:
            fields[name] = [timeless(one) for one in fields[name]]
    for name in ("file_data", "data"):
        if fields.get(name) is not None:
            fields[name] = timeless(fields[name])
    return fields


def timeless(one):
    return {key: value for key, value in one.items() if not key.endswith("_at")}


def perform(backend, operation):
    name, *arguments = operation
    return shown(getattr(backend, name)(*arguments))


@settings(max_examples=300, deadline=None)
@given(st.lists(operations, max_size=12))
def test_the_same_operations_have_the_same_results(sequence):
    one = Memory(dict.fromkeys(KEPT, "kept\n"))
    routes = {"/a": Memory(), "/a/b/": Memory(), "/.c/d": Memory()}
    many = CompositeBackend(Memory(), routes)
    many.upload_files([(path, b"kept\n") for path in KEPT])
    ruled = PolicyBackend(Memory(dict.fromkeys(KEPT, "kept\n")))
    for operation in sequence:
        if operation[0] == "delete" and holds_a_kept_file(operation[1]):
            continue
        expected = perform(one, operation)
        assert perform(many, operation) == expected, operation
        assert perform(ruled, operation) == expected, operation
