"""The command line of bubblewrap: what a sandbox sees of this machine, which is as little as it can do with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sandboxes.errors import ImageNotFound, InvalidSpec, Unsupported
from sandboxes.providers.base import Mount, SandboxSpec

STATE = "/run/fanfold/state"
"""The helper's folder in the sandbox."""
TOOLBOX = "/run/fanfold/toolbox"
UPPER = "/run/fanfold/upper"
"""What the sandbox has written to its working directory, to be looked at."""
TMP_SIZE = 1024**3
"""Bytes of /tmp when the disk is limited."""
HOME = "/home/sandbox"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "debian_version", "gai.conf", "host.conf", "java-17-openjdk",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types", "nsswitch.conf", "os-release",
    "pki/tls/certs", "protocols", "services", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
)  # fmt: skip
"""What is shown of /etc: nothing that names people, hosts or secrets of this machine."""


@dataclass(frozen=True)
class Lowers:
    """Folders of this machine that lie below what a sandbox writes, the lowest first."""

    workspace: tuple[Path, ...] = ()
    system: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The folder of one sandbox on this machine."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def make(self, owner: int | None, lowers: Lowers = Lowers()) -> None:
        """Make the parts that the sandbox writes to, owned by whom its processes will be."""
        for name in ("base", "upper", "work", "state", "tmp", "etc"):
            (self / name).mkdir(parents=True)
            if owner is not None:
                os.chown(self / name, owner, owner)
        (self / "tmp").chmod(0o1777)
        if lowers.workspace:
            (self / "upper").chmod(lowers.workspace[-1].stat().st_mode & 0o7777)  # the top layer's is what is seen
        self.folder.chmod(0o711 if owner is not None else 0o700)


def numeric_user(spec: SandboxSpec) -> tuple[int, int]:
    """The uid and gid inside the sandbox."""
    if spec.user is None:
        return (0, 0) if spec.system == "overlay" else (1000, 1000)
    uid, _, gid = spec.user.partition(":")
    if not uid.isdigit() or not (gid or uid).isdigit():
        raise InvalidSpec(f"user {spec.user!r}: the local provider takes numbers, UID or UID:GID")
    return int(uid), int(gid or uid)


def write_etc(layout: Layout, uid: int, gid: int) -> None:
    """The sandbox's own names: one user, one host."""
    name = "root" if uid == 0 else "sandbox"
    (layout / "etc" / "passwd").write_text(f"{name}:x:{uid}:{gid}::{HOME}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")
    (layout / "etc" / "group").write_text(f"{name}:x:{gid}:\nnogroup:x:65534:\n")
    (layout / "etc" / "hosts").write_text("127.0.0.1 localhost sandbox\n::1 localhost\n")


def system_layer(spec: SandboxSpec) -> str:
    """Where, in its folder, a sandbox keeps what it changes of the system."""
    return f"system/{'root' if spec.rootfs else 'usr'}-upper"


def arguments(
    spec: SandboxSpec,
    layout: Layout,
    toolbox: Path,
    skeleton: Path | None,
    lowers: Lowers = Lowers(),
) -> list[str]:
    """Everything between `bwrap` and the command."""
    uid, gid = numeric_user(spec)
    args = ["--unshare-all", "--unshare-user", "--disable-userns", "--hostname", "sandbox", "--clearenv"]
    args += ["--uid", str(uid), "--gid", str(gid)]
    if spec.network == "public":
        args += ["--share-net"]
    args += _rootfs(spec.rootfs, spec.system, layout, lowers) if spec.rootfs else _host_system(spec, layout, skeleton, lowers)
    args += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run", "--dir", HOME]
    args += _temporary(spec, layout, lowers)
    args += ["--bind", str(layout / "state"), STATE, "--ro-bind", str(toolbox), TOOLBOX]
    for name in ("passwd", "group", "hosts"):
        args += ["--ro-bind", str(layout / "etc" / name), f"/etc/{name}"]
    if spec.network == "public" and Path("/etc/resolv.conf").exists():
        args += ["--ro-bind", os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf"]
    for mount in spec.mounts:
        args += _mount(mount, spec)
    for key, value in {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", **spec.env}.items():
        args += ["--setenv", key, value]
    if spec.system == "read-only":
        args += ["--remount-ro", "/"]
    return [*args, "--chdir", spec.workdir]


def _temporary(spec: SandboxSpec, layout: Layout, lowers: Lowers) -> list[str]:
    """The working directory and /tmp: on disk and copy-on-write, or in sized memory file systems when the disk is limited."""
    if spec.resources.disk is not None:
        limited = ["--size", str(TMP_SIZE), "--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108
        return [*limited, "--size", str(spec.resources.disk), "--tmpfs", spec.workdir]
    seen = ["--ro-bind", str(layout / "upper"), UPPER]
    shared = ["--bind", str(layout / "tmp"), "/tmp"]  # noqa: S108
    overlay = ["--overlay", str(layout / "upper"), str(layout / "work"), spec.workdir]
    return [*shared, *_sources(lowers.workspace or (layout / "base",)), *overlay, *seen]


def _sources(folders: tuple[Path, ...]) -> list[str]:
    return [word for folder in folders for word in ("--overlay-src", str(folder))]


def _rootfs(rootfs: str, system: str, layout: Layout, lowers: Lowers) -> list[str]:
    if not Path(rootfs).is_dir():
        raise ImageNotFound(f"rootfs {rootfs!r} is not a folder of this machine")
    if system == "read-only":
        # A throw-away overlay takes the mount points that the folder lacks; it is made read-only at the end.
        return ["--overlay-src", rootfs, "--tmp-overlay", "/"]
    return ["--overlay-src", rootfs, *_sources(lowers.system), "--overlay", *_layer(layout, "root"), "/"]


def _layer(layout: Layout, name: str) -> list[str]:
    places = [layout / "system" / f"{name}-{part}" for part in ("upper", "work")]
    for place in places:
        place.mkdir(parents=True)
        os.chown(place, *_owner(layout))
    return [str(place) for place in places]


def _owner(layout: Layout) -> tuple[int, int]:
    status = (layout / "upper").stat()
    return status.st_uid, status.st_gid


def top_folders() -> list[str]:
    """This machine's `/bin`, `/lib` and the like, which are links into `/usr` or folders."""
    args = []
    for name in _TOP:
        place = Path("/") / name
        if place.is_symlink():
            args += ["--symlink", str(place.readlink()), f"/{name}"]
        elif place.is_dir():
            args += ["--ro-bind", str(place), f"/{name}"]
    return args


def _host_system(spec: SandboxSpec, layout: Layout, skeleton: Path | None, lowers: Lowers) -> list[str]:
    args = ["--ro-bind", "/usr", "/usr"]
    if skeleton is not None:
        args = [*_sources((Path("/usr"), skeleton, *lowers.system)), "--overlay", *_layer(layout, "usr"), "/usr"]
    args += top_folders()
    for name in _ETC:
        place = Path("/etc") / name
        if place.exists():
            args += ["--ro-bind", os.path.realpath(place), f"/etc/{name}"]
    return args


def _mount(mount: Mount, spec: SandboxSpec) -> list[str]:
    origin = Path(mount.source) if mount.source is not None else Path(spec.rootfs or "/") / mount.target.lstrip("/")
    if mount.mode == "hidden":
        if origin.is_file():
            return ["--ro-bind", "/dev/null", mount.target]
        return ["--perms", "0000", "--size", "4096", "--tmpfs", mount.target, "--remount-ro", mount.target]
    if mount.source is not None and not origin.exists():
        raise InvalidSpec(f"mount source {mount.source!r} does not exist on this machine")
    if mount.source is None and _below(mount.target, spec.workdir):
        return ["--perms", "0555", "--size", "4096", "--tmpfs", mount.target, "--remount-ro", mount.target]
    if mount.source is None and not _visible(mount.target, spec):
        raise Unsupported(f"mount {mount.target}: there is nothing at this path of the system to make read-only")
    return ["--ro-bind", str(origin), mount.target]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _visible(target: str, spec: SandboxSpec) -> bool:
    """Whether a path of this machine is one that the sandbox is shown anyway."""
    if spec.rootfs:
        return (Path(spec.rootfs) / target.lstrip("/")).exists()
    return Path(target).exists() and target.split("/")[1] in ("usr", *_TOP)
