"""The context of a Dockerfile is packed once, within bounds; what is unpacked of it stays where it is put."""

import io
import tarfile

import pytest

from sandboxes.errors import InvalidSpec
from sandboxes.providers import context
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.dockerfile import Dockerfile
from sandboxes.providers.dockerignore import Rules


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "here"
    (made / "sub" / "deep").mkdir(parents=True)
    (made / "Dockerfile").write_text("FROM base\nCOPY . /x\n")
    (made / "sub" / "file").write_text("content")
    (made / "sub" / "deep" / "tool").write_text("#!/bin/sh\n")
    (made / "sub" / "deep" / "tool").chmod(0o755)
    (made / "link").symlink_to("sub/file")
    return made


async def build_of(folder, **fields):
    spec = SandboxSpec(dockerfile=Dockerfile(path=str(folder / "Dockerfile"), **fields))
    async with context.prepared(spec) as build:
        found = {str(one.relative_to(build.folder)): one for one in build.folder.rglob("*")}
        told = {name: one.read_text() for name, one in found.items() if one.is_file()}
        return build, told, (found["sub/deep/tool"].stat().st_mode & 0o777 if "sub/deep/tool" in found else None)


async def test_a_context_arrives_as_it_is_and_goes_again(folder):
    build, told, mode = await build_of(folder)
    assert (told["sub/file"], told["link"], mode) == ("content", "content", 0o755)
    assert build.text == "FROM base\nCOPY . /x\n"
    assert not build.folder.parent.exists()


async def test_the_digest_tells_content_dockerfile_and_network_apart_and_nothing_else(folder):
    first, _, _ = await build_of(folder)
    (folder / "sub" / "file").touch()
    again, _, _ = await build_of(folder)
    public, _, _ = await build_of(folder, network="public")
    (folder / "sub" / "file").write_text("another")
    other, _, _ = await build_of(folder)
    assert first.digest == again.digest
    assert len({first.digest, public.digest, other.digest}) == 3


async def test_what_is_packed_is_built_as_the_folder_would_be(folder, tmp_path):
    with (tmp_path / "packed.tar").open("xb") as out:
        context.pack(Dockerfile(path=str(folder / "Dockerfile")), out)
    async with context.prepared(SandboxSpec(dockerfile=Dockerfile(archive=str(tmp_path / "packed.tar")))) as build:
        assert (build.folder / "sub" / "file").read_text() == "content"
        digest = build.digest
    assert digest == (await build_of(folder))[0].digest


@pytest.mark.parametrize(
    ("rules", "left_out", "kept"),
    [
        ("sub\n", ["sub", "sub/a", "sub/a/b"], ["subway", "x/sub"]),
        ("**/*.pyc\n", ["a.pyc", "x/y/a.pyc"], ["a.py"]),
        ("# no\n\n*\n!keep\n", ["a", "a/b"], ["keep", "keep/a"]),
        ("*/temp*\n", ["a/temporary", "a/temp/x"], ["temp", "a/b/temp"]),
        ("a/**/z\n", ["a/z", "a/b/c/z/below"], ["a/b"]),
        ("/top\nx/../y\n[ab]?\n", ["top", "y", "ac"], ["x", "cc"]),
        ("a/**\n", ["a/b"], ["a"]),
    ],
)
def test_a_dockerignore_is_read_as_docker_reads_it(rules, left_out, kept):
    found = Rules(rules)
    assert [path for path in left_out if not found.leave_out(path, folder=False)] == []
    assert [path for path in kept if found.leave_out(path, folder=False)] == []


def test_rules_that_are_made_to_take_long_do_not():
    assert not Rules("/".join(["**/a*b*c*d*e*f*g*h*"] * 25)).leave_out("/".join(["a" * 200] * 256), folder=False)
    with pytest.raises(InvalidSpec, match="more than 50 parts"):
        Rules("/".join(["**/a"] * 26))


async def test_the_ignore_file_of_a_dockerfile_counts_before_the_contexts_own(folder):
    (folder / ".dockerignore").write_text("sub\n")
    _, told, _ = await build_of(folder)
    assert "sub/file" not in told
    (folder / "Dockerfile.dockerignore").write_text("*\n!sub\n!link\n")
    _, told, _ = await build_of(folder)
    assert sorted(told) == ["link", "sub/deep/tool", "sub/file"]


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "sub/../../outside"])
async def test_a_link_that_leads_out_of_the_context_is_refused(folder, target):
    (folder.parent / "outside").write_text("secret")
    (folder / "evil").symlink_to(target)
    with pytest.raises(InvalidSpec, match="'evil' of the context is a link to"):
        await build_of(folder)


async def test_a_link_that_leads_out_by_way_of_another_is_refused(folder):
    (folder / "sub" / "deep" / "up").symlink_to("../..")
    (folder / "evil").symlink_to("sub/deep/up/..")
    with pytest.raises(InvalidSpec, match="evil"):
        await build_of(folder)


async def test_a_context_that_is_too_much_is_refused_before_it_is_read(folder, monkeypatch):
    monkeypatch.setattr(context, "CONTEXT_CAP", 1000)
    (folder / "big").write_bytes(bytes(1001))
    with pytest.raises(InvalidSpec, match=r"give a smaller folder.*\.dockerignore"):
        await build_of(folder)
    (folder / ".dockerignore").write_text("big\n")
    await build_of(folder)


@pytest.mark.parametrize("name", ["missing", "sub"])
async def test_what_is_no_dockerfile_is_told_by_its_path(folder, name):
    spec = SandboxSpec(dockerfile=Dockerfile(path=str(folder / name)))
    with pytest.raises(InvalidSpec, match=f"cannot read .*{name}"):
        async with context.prepared(spec):
            pass


def entry(name, kind=tarfile.REGTYPE, target=""):
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


@pytest.mark.parametrize(
    "evil",
    [
        [entry("context/../../out")],
        [entry("/out")],
        [entry("elsewhere/file")],
        [entry("context/l", tarfile.SYMTYPE, "/tmp"), entry("context/l/file")],
        [entry("context/hard", tarfile.LNKTYPE, "/etc/passwd")],
        [entry("context/device", tarfile.CHRTYPE)],
        [entry("context/twice"), entry("context/twice")],
    ],
    ids=lambda entries: entries[-1].name,
)
def test_an_archive_of_a_stranger_writes_nothing_outside(tmp_path, evil):
    archive, place = tmp_path / "evil.tar", tmp_path / "place"
    place.mkdir()
    with tarfile.open(archive, "w") as out:
        text = entry("Dockerfile")
        text.size = 7
        out.addfile(text, io.BytesIO(b"FROM a\n"))
        out.addfile(entry("context", tarfile.DIRTYPE))
        for one in evil:
            out.addfile(one)
    with pytest.raises(InvalidSpec):
        context.unpack(archive, place / "context")
    assert {one.name for one in tmp_path.iterdir()} == {"evil.tar", "place"}
    assert {one.name for one in place.iterdir()} == {"context"}
