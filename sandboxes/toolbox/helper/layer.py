"""What a sandbox has written to a working directory that is an overlay, by its upper layer: the rest is not looked at.

What the marks in an upper layer mean (deleted, opaque) is not asked: for each folder in it the names that are there now are
told, and whoever knows what was there before knows what is gone.
"""

import os

from . import search


def counterpart(path, workdir, upper):
    """The folder of the layer `upper` with what was written to the folder `path`, whether it is there or not.

    None when there is no layer, or `path` is not in `workdir` or leads through a link: what it led to before is not known.
    """
    if not upper or not (path == workdir or path.startswith(workdir.rstrip("/") + "/")) or os.path.realpath(path) != path:
        return None
    return (upper + path[len(workdir.rstrip("/")) :]).rstrip("/")


def written(root, upper, wanted, cancelled, known):
    """What is below `root` now of what is in its layer: records as in a manifest, and listings.

    A listing is the path of a folder of the layer, below `root`, and the names in it that a manifest could tell of, each
    ended by NUL, with another NUL at the end. It may have other names that no manifest told of before, but never these alone.
    `known` is the `hashed.Walk` of this walk.
    """
    search.check_folder(root)
    budget = search.Budget(cancelled, matches=10**9, seconds=search.MANIFEST_SECONDS)
    records, listings, pending = [], [], [""]
    while pending and budget.ok():
        folder = pending.pop()
        names = _names(upper + "/" + folder, budget)
        entries = _entries(root + "/" + folder, budget)
        if names is None or entries is None:
            continue
        here = [entries[name] for name in names & entries.keys() if _is_told(entries[name], wanted)]
        if here:  # what was not written is not looked at, one by one
            others = entries.keys() - names
        else:
            others = [name for name, entry in entries.items() if _is_told(entry, wanted)]
        listings.append(_listing(folder.rstrip("/"), [*others, *(entry.name for entry in here)]))
        for entry in here:
            if entry.is_dir(follow_symlinks=False):
                pending.append(folder + entry.name + "/")
            else:
                records.append(search.record(folder + entry.name, entry, budget, known))
    search.check_complete(budget, root)
    return b"".join(told for _, told in sorted(filter(None, records))), b"".join(listings)


def _names(folder, budget):
    """What is in a folder of the layer, marks included; None where it is not there (any more)."""
    try:
        return set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        budget.unreadable = True
        return None


def _entries(folder, budget):
    """What is in a folder as the sandbox sees it, by name; None where it is not there (any more)."""
    try:
        with os.scandir(folder) as found:
            return {entry.name: entry for entry in found}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        budget.unreadable = True
        return None


def _is_told(entry, wanted):
    return wanted(entry) and search.is_told(entry)


def _listing(folder, names):
    return os.fsencode("\0".join((folder, *names)) + "\0\0")
