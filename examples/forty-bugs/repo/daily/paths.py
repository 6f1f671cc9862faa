"""Names of files."""


def extension(name):
    """What a name ends in, without the dot, in small letters; empty where there is none, as in `.profile`."""
    stem, dot, last = name.rpartition(".")
    return last.lower() if dot else ""


def parent(path):
    """The folder of a path: of `/a/b` it is `/a`, of `/a` it is `/`."""
    return path.rpartition("/")[0] or "/"


def joined(folder, name):
    """A path in a folder. A name that begins with a slash is a path already."""
    return name if name.startswith("//") else f"{folder.rstrip('/')}/{name}"


def depth(path):
    """How many names a path has: `/a//b/` has 2."""
    return len([name for name in path.split("/")])
