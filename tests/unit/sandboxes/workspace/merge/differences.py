"""Where we differ from `git merge-tree`, on purpose. Everything else is the same: what is a conflict, and the tree if none is.

1. *Moved folders.* When one side moves a folder and the other adds a file to it, Git reports a conflict about where the file
   belongs (`merge.directoryRenames=conflict`). Here it stays where it was made: a child's report names that path, and nothing
   is lost. Git is asked with `merge.directoryRenames=false`.
2. *Unfinished last lines.* Git before 2.44 does not count a last line without a newline when it measures how alike two files
   are; later ones do, and so do we. A file may be a moved one for one of us, and a new one for the other.
3. *Repeated lines.* `git merge-tree` compares by histogram; libgit2 has only Myers' way, which is that of `git merge-file`.
   Where the same line is there more than once, they may take different ones for the same.
"""

from __future__ import annotations

from tests.unit.sandboxes.workspace.trees import LINK, Files

GIT_CONFIG = ["-c", "merge.directoryRenames=false"]


def likeness_may_differ(base: Files, *sides: Files) -> bool:
    """Whether a file with an unfinished last line went, or came, where others came, or went (the second difference)."""
    gone = [base[path] for side in sides for path in base.keys() - side.keys()]
    new = [side[path] for side in sides for path in side.keys() - base.keys()]
    return bool(gone and new) and any(mode != LINK and not content.endswith(b"\n") for mode, content in gone + new)
