"""What is in a workspace, as values: pure over manifests and byte streams, so that it can be tested without a sandbox.

- `names`: which paths may be in a workspace, and which of them Git refuses.
- `manifest.FileEntry`: one path of a workspace, as a sandbox reports it.
- `archive.pack_folder` writes a local folder as a deterministic tar; `foreign.normalize` makes such a tar of an archive that
  a stranger made; both go through `tarwriter.TarWriter`.
- `tree.BaseTree.from_tar` is the state that a run starts from; `tree.Tree` is any state.
- `folders` reads a local folder as a tree and writes a tree as one.
- `merge.merge(base, children, policy)` folds what many made of a base into one tree.
- `pack.pack` writes what a sandbox changed, with its contents, into one file; `packed` is the form of it.
- `patch.make_patch(base, manifest, fetch)` is the way from the base to what a sandbox holds now, as `git apply` takes it.

Paths are relative, with `/`, and bytes that are not UTF-8 in them are surrogate escapes (`os.fsdecode`).
"""
