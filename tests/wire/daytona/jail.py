"""The sandboxes behind the wire server: bubblewrap, as the local provider starts it, with a root filesystem of their own.

What a sandbox writes anywhere lies in one or two layers on this machine, so that a fork or a snapshot is a copy of them. The
images are this machine's `/usr`, with Python or without.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sandboxes.providers.base import Resources
from sandboxes.providers.local import cgroups, jail, launch, snapshots, system
from sandboxes.providers.local.processes import Process
from sandboxes.providers.local.provider import SANDBOX_UID
from sandboxes.providers.local.removal import remove_tree

GIB: Final = 1024**3
REPLY_CAP: Final = 16 * 1024 * 1024
HOME: Final = "/home/daytona"
PLACE: Final = "/run/daytona"
"""Where the daemon is, in the sandbox."""
_TOP: Final = ("etc", "home/daytona", "root", "tmp", "var/tmp", "proc", "dev", "run", "sys", "usr")


@dataclass(frozen=True)
class Kind:
    """What a sandbox is."""

    root: bool = False
    """Whether its user is root, who may change the system; else it is `daytona`."""
    python: bool = True
    built: bool = False
    """Whether its image was built of a Dockerfile: then it has a system of its own, whoever its user is."""
    network: bool = False
    cpu: int = 1
    memory: int = 1
    """GiB."""


class Yard:
    """The folder of all sandboxes and snapshots of one server."""

    def __init__(self, top: Path) -> None:
        self.owner = SANDBOX_UID if os.geteuid() == 0 else None
        self.top = top
        self.shared = top / "shared"
        self.shared.mkdir(parents=True)
        top.chmod(0o711 if self.owner is not None else 0o700)
        shutil.copy(Path(__file__).with_name("daemon.py"), self.shared / "daemon.py")
        self.bwrap = system.bwrap_folder(None if self.owner is None else self.shared)

    def base(self) -> Path:
        """The lowest layer of every root filesystem: folders, links, and the names of two users."""
        base = self.shared / "base"
        if base.exists():
            return base
        for name in _TOP:
            (base / name).mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            if (Path("/usr") / name).is_dir():
                (base / name).symlink_to(f"usr/{name}")
        etc = base / "etc"
        etc.joinpath("passwd").write_text(f"root:x:0:0::/root:/bin/sh\ndaytona:x:1000:1000::{HOME}:/bin/sh\n")
        etc.joinpath("group").write_text("root:x:0:\ndaytona:x:1000:\n")
        etc.joinpath("hosts").write_text("127.0.0.1 localhost\n")
        for name in ("ld.so.cache", "alternatives", "nsswitch.conf", "ssl"):
            (etc / name).symlink_to(f"{PLACE}/etc/{name}")
        if self.owner is not None:
            for folder, names, files in os.walk(base):
                for one in (".", *names, *files):
                    os.chown(Path(folder) / one, self.owner, self.owner, follow_symlinks=False)
        for name in ("tmp", "var/tmp"):
            (base / name).chmod(0o1777)
        return base

    def __truediv__(self, name: str) -> Jail:
        return Jail(self, self.top / name)


class Jail:
    """One sandbox, running or not."""

    def __init__(self, yard: Yard, folder: Path) -> None:
        self._yard = yard
        self._layout = jail.Layout(folder)

    @property
    def folder(self) -> Path:
        """Where it is on this machine."""
        return self._layout.folder

    def make(self, layers: Path | None = None) -> None:
        """Make its folders, empty, or with copies of the layers of another one."""
        self.folder.mkdir()
        for name in ("root", "usr"):
            for part in ("work", "upper"):
                place = self.folder / f"{name}-{part}"
                if part == "upper" and layers is not None:
                    snapshots.copy_layer(layers / f"{name}-upper", place, self._yard.bwrap, self._yard.owner)
                else:
                    self._own(place)
        self.folder.chmod(0o711 if self._yard.owner is not None else 0o700)

    def _own(self, place: Path) -> None:
        place.mkdir()
        if self._yard.owner is not None:
            os.chown(place, self._yard.owner, self._yard.owner)

    def start(self, kind: Kind) -> None:
        """Start its daemon; from then on it has processes."""
        if cgroups.usable():
            cgroups.create(self.folder.name, Resources(cpu=kind.cpu, memory=kind.memory * GIB, pids=4096))
        with self._address() as address, socket.socket(socket.AF_UNIX) as listener:
            with contextlib.suppress(FileNotFoundError):
                Path(address).unlink()
            listener.bind(address)
            listener.listen(256)
            python = system.python(None)
            daemon = [f"{PLACE}/python", "-I", "-S", "-B", f"{PLACE}/daemon.py", str(listener.fileno())]
            arguments = self._arguments(kind, os.path.realpath(python))
            launch.launch(
                self._layout, arguments, daemon, listener, self._yard.bwrap, self._yard.owner, self.folder.name
            )

    @contextlib.contextmanager
    def _address(self) -> Iterator[str]:
        descriptor = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{descriptor}/daemon.sock"
        finally:
            os.close(descriptor)

    def _arguments(self, kind: Kind, python: str) -> list[str]:
        user, home = ("0", "/root") if kind.root else ("1000", HOME)
        args = ["--unshare-all", "--unshare-user", "--disable-userns", "--hostname", "sandbox", "--clearenv"]
        args += ["--uid", user, "--gid", user, *(["--share-net"] if kind.network else [])]
        args += ["--overlay-src", str(self._yard.base()), *self._overlay("root"), "/"]
        args += self._usr(kind)
        if not kind.root and not kind.built:
            args += ["--ro-bind", str(self._yard.base() / "etc"), "/etc"]
        args += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/sys", "--remount-ro", "/sys"]
        args += ["--tmpfs", "/run", "--dir", PLACE]
        args += ["--ro-bind", str(self._yard.shared / "daemon.py"), f"{PLACE}/daemon.py"]
        args += ["--ro-bind", python, f"{PLACE}/python"]
        for name in ("ld.so.cache", "alternatives", "nsswitch.conf", "ssl"):
            args += ["--ro-bind-try", f"/etc/{name}", f"{PLACE}/etc/{name}"]
        if not kind.python:
            for one in _pythons():
                args += ["--ro-bind", "/dev/null", str(one)]
        for key, value in {"PATH": jail.PATH, "HOME": home, "LANG": "C.UTF-8"}.items():
            args += ["--setenv", key, value]
        return [*args, "--chdir", home]

    def _usr(self, kind: Kind) -> list[str]:
        if not kind.root and not kind.built:
            return ["--ro-bind", "/usr", "/usr"]
        skeleton = system.skeleton(self._yard.shared, self._yard.owner)
        return ["--overlay-src", "/usr", "--overlay-src", str(skeleton), *self._overlay("usr"), "/usr"]

    def _overlay(self, name: str) -> list[str]:
        return ["--overlay", str(self.folder / f"{name}-upper"), str(self.folder / f"{name}-work")]

    def process(self) -> Process | None:
        """Its first process, when it lives."""
        try:
            found = Process(**json.loads((self.folder / "process.json").read_text()))
        except (OSError, ValueError):
            return None
        return found if found.alive() else None

    def stop(self) -> None:
        """Kill everything in it; its files stay."""
        process = self.process()
        if process is not None:
            process.kill()
        cgroups.remove(self.folder.name)

    def remove(self) -> None:
        """Stop it and remove its files."""
        self.stop()
        remove_tree(self.folder)

    def copy_to(self, target: Path) -> None:
        """Copy its layers to a new folder, while everything in it stands still."""
        process = self.process()
        if process is not None:
            process.stop()
        try:
            target.mkdir()
            for name in ("root", "usr"):
                place = target / f"{name}-upper"
                snapshots.copy_layer(self.folder / f"{name}-upper", place, self._yard.bwrap, self._yard.owner)
        finally:
            if process is not None:
                process.go_on()

    # -- talking to its daemon (blocking; each call is one connection)

    def ask(self, op: str, descriptors: Sequence[int] = (), **fields: Any) -> Answer:
        """Ask something of the daemon. Raises `OSError` as the daemon got it."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            with self._address() as address:
                connection.connect(address)
            request = json.dumps({"op": op, **fields}).encode() + b"\n"
            packed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            sent = connection.sendmsg([request], packed)
            if rest := request[sent:]:
                connection.sendall(rest)
            answer = _received(connection)
            if "error" in answer.told:
                raise OSError(answer.told["error"], answer.told["message"])
        except BaseException:
            connection.close()
            raise
        return answer

    def told(self, op: str, **fields: Any) -> Mapping[str, Any]:
        """The answer to a request that brings no descriptors."""
        answer = self.ask(op, **fields)
        answer.connection.close()
        return answer.told

    def open(self, path: str, *, write: bool = False) -> int:
        """A descriptor of a file in it. Raises `OSError`."""
        answer = self.ask("open", path=path, write=write)
        answer.connection.close()
        [descriptor] = answer.descriptors
        return descriptor


@dataclass(frozen=True)
class Answer:
    """What a daemon has answered, and the connection, on which more may come; `rest` is what of that is here already."""

    told: dict[str, Any]
    descriptors: list[int]
    connection: socket.socket
    rest: bytes


def _received(connection: socket.socket) -> Answer:
    data, ancillary, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(16))
    given = array.array("i")
    for _, _, packed in ancillary:
        given.frombytes(packed[: len(packed) // 4 * 4])
    while data and b"\n" not in data and len(data) < REPLY_CAP:
        more = connection.recv(65536)
        if not more:
            break
        data += more
    if not data:
        raise ConnectionResetError(104, "the sandbox has ended")
    line, _, rest = data.partition(b"\n")
    return Answer(json.loads(line), list(given), connection, rest)


def _pythons() -> list[Path]:
    """The programs that an image without Python does not have."""
    found = [one for folder in ("/usr/bin", "/usr/local/bin") for one in Path(folder).glob("python3*") if one.is_file()]
    return sorted({one.resolve() for one in found if one.resolve().is_relative_to("/usr")})
