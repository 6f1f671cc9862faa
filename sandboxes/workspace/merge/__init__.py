"""The work of many children, folded back into the tree that they all started from.

`merge` takes the base, the children in task order and a policy, and gives the tree that they come to together, with every
conflict as a value. It agrees with `git merge-tree` on what is a conflict; tests/unit/sandboxes/workspace/merge says where
it does not, and why. It works on what was changed alone: what nobody touched is neither read nor compared.

- `fold`: the children, one after the other. `stages`: what three sides have at each path, after `renames`.
- `emptied`: folders with nothing in them, which are no part of that.
- `path`: what one path comes to; `text` for its lines, `drivers` for files that are merged by key.
- `sandboxes.workspace.mergepolicy`: what is done where two sides disagree. Who reads a policy needs no Git library for it.
- `verified.verified`: the most of their work that passes a check together.
- `report.MergeReport`: the result for people and programs; `display`: its conflicts as files; `summary`: what became of
  one child, in a few sentences.

Files are bytes: line ends and encodings are neither changed nor compared in any clever way, so a side that changed all line
ends has changed all lines. Names are bytes, too: `readme` and `README` are two files, and a file that only changed the case
of its name was moved.
"""

from sandboxes.workspace.merge.fold import merge
from sandboxes.workspace.merge.values import At, Child, ChildResult, Conflict, Contents, Kind, MergeResult
from sandboxes.workspace.mergepolicy import Choice, Driver, Policy, Rule

__all__ = [
    "At",
    "Child",
    "ChildResult",
    "Choice",
    "Conflict",
    "Contents",
    "Driver",
    "Kind",
    "MergeResult",
    "Policy",
    "Rule",
    "merge",
]
