"""Nothing leads out of a root. All attacks go to decoys in the test's own folder."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

import pytest

from sandboxes.backends.disk.rooted import PATH_MAX, Host, Rooted, status
from sandboxes.backends.filesystem import FilesystemBackend
from sandboxes.toolbox.helper.text import Refused

READ = os.O_RDONLY
AT_FDCWD = -100
RENAME_EXCHANGE = 2
ROUNDS = 100
"""How often a race is tried."""


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    (made / "inner" / "deep").mkdir(parents=True)
    (made / "file").write_text("inside")
    (made / "inner" / "file").write_text("inner")
    return made


@pytest.fixture
def secret(tmp_path):
    """A folder outside of the root, with a file that nobody may read or change."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    return outside


@pytest.fixture
def tree(root):
    return Rooted(root)


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def _no_descriptor_stays_open():
    before = open_descriptors()
    yield
    assert open_descriptors() <= before


def content(tree, path):
    descriptor = tree.open(path, READ)
    try:
        return os.read(descriptor, 100).decode()
    finally:
        os.close(descriptor)


def test_a_path_begins_at_the_root(tree, root):
    assert content(tree, "/file") == "inside"
    assert content(tree, "/inner/file") == "inner"
    assert os.path.samestat(status(tree, "/"), root.stat())


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("here", "file"),
        ("below", "inner/file"),
        ("inner/up", "../file"),
        ("inner/deep/around", "../../inner/deep/../../file"),
        ("dotted", "./inner/./file"),
        ("twice", "inner/../inner/file"),
    ],
)
def test_a_link_that_stays_inside_is_followed(tree, root, link, target):
    (root / link).symlink_to(target)
    assert content(tree, f"/{link}") == (root / link).read_text()


def test_an_absolute_link_to_a_place_inside_is_followed(tree, root):
    (root / "inner" / "link").symlink_to(root / "file")
    (root / "top").symlink_to(root)
    assert content(tree, "/inner/link") == "inside"
    assert content(tree, "/top/top/inner/link") == "inside"


def test_a_link_to_a_folder_is_passed_through_and_up_from_where_it_leads(tree, root):
    (root / "to-deep").symlink_to("inner/deep")
    (root / "then-up").symlink_to("to-deep/../file")
    assert content(tree, "/then-up") == "inner"


def test_links_that_lead_to_links_are_followed(tree, root):
    (root / "link0").symlink_to("file")
    for number in range(1, 30):
        (root / f"link{number}").symlink_to(f"link{number - 1}")
    assert content(tree, "/link29") == "inside"


@pytest.mark.parametrize("where", ["", "inner/", "inner/deep/"])
@pytest.mark.parametrize(
    "target", ["{outside}", "{up}outside", "{up}root/../outside", "{root}-evil", "{root}/../outside", "{up}", "//{outside}"]
)
def test_a_link_that_leads_out_is_refused_wherever_it_stands(tree, root, secret, where, target):
    up = "../" * (where.count("/") + 1)
    (root.parent / "root-evil").mkdir()
    (root.parent / "root-evil" / "file").write_text("secret")
    (root / where / "out").symlink_to(target.format(outside=secret, up=up, root=root))
    for path in (f"/{where}out", f"/{where}out/file", f"/{where}out/new/file"):
        with pytest.raises(Refused, match="leads out of the root"):
            tree.open(path, READ)
        with pytest.raises(Refused, match="leads out of the root"), tree.place(path, make=True, follow=True):
            pass
    assert [path.name for path in secret.iterdir()] == ["file"]


def test_a_chain_of_links_whose_last_leads_out_is_refused(tree, root, secret):
    (root / "out").symlink_to(secret)
    (root / "first").symlink_to("second/file")
    (root / "second").symlink_to("inner/../out")
    with pytest.raises(Refused):
        tree.open("/first", READ)


def test_the_place_of_a_link_is_the_links_own_unless_it_is_followed(tree, root, secret):
    (root / "out").symlink_to(secret / "file")
    with tree.place("/out") as (folder, name):
        assert os.readlink(name, dir_fd=folder) == str(secret / "file")
    (root / "in").symlink_to("inner/new")
    with tree.place("/in", follow=True) as (folder, name):
        assert name == "new"
        assert os.path.samestat(os.stat(".", dir_fd=folder), (root / "inner").stat())


def test_dots_in_a_path_lead_no_higher_than_the_root(tree):
    assert content(tree, "/inner/../file") == "inside"
    with pytest.raises(Refused):
        tree.open("/../outside/file", READ)


def test_a_link_that_leads_to_itself_is_an_error(tree, root):
    (root / "loop").symlink_to("loop")
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a/x")
    for path in ("/loop", "/a", "/a/file"):
        with pytest.raises(OSError, match="symbolic links"):
            tree.open(path, READ)


def test_links_that_go_up_and_down_forever_come_to_an_end(tree, root):
    (root / "tall").symlink_to("inner/../" * 400 + "tall")
    with pytest.raises(OSError, match="symbolic links"):
        tree.open("/tall", READ)


def test_missing_folders_are_made_only_when_asked_for(tree, root):
    with pytest.raises(FileNotFoundError), tree.place("/new/folder/file"):
        pass
    with tree.place("/new/folder/file", make=True) as (_, name):
        assert name == "file"
    assert (root / "new" / "folder").is_dir()


def test_folders_are_made_below_a_link_but_never_by_a_dangling_one(tree, root):
    (root / "link").symlink_to("inner")
    (root / "dangling").symlink_to("nowhere/at/all")
    with tree.place("/link/made/file", make=True):
        assert (root / "inner" / "made").is_dir()
    with pytest.raises(FileExistsError), tree.place("/dangling/file", make=True):
        pass
    assert not (root / "nowhere").exists()


def test_the_root_is_made_at_first_use(tmp_path):
    tree = Rooted(tmp_path / "not" / "yet")
    assert status(tree, "/").st_nlink
    assert (tmp_path / "not" / "yet").is_dir()


def test_a_path_that_the_kernel_would_not_take_is_refused(tree):
    with pytest.raises(OSError, match="too long"):
        tree.open("/a" * (PATH_MAX // 2), READ)


def test_a_file_in_the_middle_of_a_path_is_an_error(tree):
    with pytest.raises(NotADirectoryError):
        tree.open("/file/below", READ)


def test_without_containment_links_lead_anywhere(root, secret):
    (root / "out").symlink_to(secret)
    assert content(Host(), f"{root}/out/file") == "secret"
    with Host().place(f"{root}/out/new", follow=True) as (folder, name):
        assert (name, os.path.samestat(os.stat(".", dir_fd=folder), secret.stat())) == ("new", True)
    with Host().place("/") as (folder, name):
        assert os.path.samestat(os.stat(name, dir_fd=folder), Path("/").stat())


class Swapper(threading.Thread):
    """Somebody who exchanges a folder of the root with a link that leads out, and back, as fast as it goes."""

    def __init__(self, folder, outside):
        super().__init__(daemon=True)
        link = folder.with_name("link")
        link.symlink_to(outside)
        self._paths = os.fsencode(folder), os.fsencode(link)
        self._exchange = ctypes.CDLL(None, use_errno=True).renameat2
        self._over = threading.Event()
        self.rounds = 0

    def run(self):
        first, second = self._paths
        while not self._over.is_set() or self.rounds % 2:
            assert self._exchange(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE) == 0, os.strerror(ctypes.get_errno())
            self.rounds += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()


def attempts(backend, number):
    """Every operation, on a path through the folder that is swapped."""
    yield backend.write(f"/inner/written{number}", "x")
    yield backend.upload_files([("/inner/file", b"inner"), (f"/inner/made{number}/file", b"x")])[0]
    yield backend.edit("/inner/file", "inner", "inner")
    yield backend.delete(f"/inner/made{number}")
    yield backend.delete("/inner/kept")
    yield backend.read("/inner/file")
    yield backend.download_files(["/inner/file"])[0]
    yield backend.ls("/inner")
    yield backend.grep("secret")
    yield backend.glob("*", "/inner")


def test_a_folder_that_is_swapped_for_a_link_during_an_operation_leads_nowhere(root, secret):
    (secret / "kept").mkdir()
    (secret / "kept" / "precious").write_text("secret")
    backend = FilesystemBackend(root, virtual_mode=True)
    done = 0
    with Swapper(root / "inner", secret) as swapper:
        for number in range(ROUNDS):
            for result in attempts(backend, number):
                done += result.error is None
                assert "secret" not in repr(result).replace("/secret", ""), result
                assert "precious" not in repr(result)
    assert swapper.rounds > 0
    assert done > ROUNDS, "many of them must have met the folder itself"
    assert sorted(str(path.relative_to(secret)) for path in secret.rglob("*")) == ["file", "kept", "kept/precious"]
    assert (secret / "file").read_text() == "secret"
