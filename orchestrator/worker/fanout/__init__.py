"""Fanning out and folding back: children in forks of a run's sandbox, and the merge of what they changed.

A fan-out goes through these steps, and each is noted in the record before the next one begins, so that a worker that takes
the run over goes on where the last one was: its children are recorded; what the workspace holds is noted, as their base; the
children are executed, and each leaves what it changed; that is merged, and tried; what is to be changed is noted; it is
applied, under an id, so that it happens once; what came of it is noted.

- `operation` has these steps. `order` is what a fan-out is asked for, `source` what the sandboxes of children are made from.
- `nursery` executes children. `changes` keeps what one changed; `base` is what it is compared with.
- `folding` merges, `trial` tries what was merged, `outcome` tells what came of it.
- `declared` is the fan-out of a task file, `subagents` that of an agent.
"""
