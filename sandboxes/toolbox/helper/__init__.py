"""The resident helper: what runs inside a sandbox.

This package imports the standard library alone and runs on Python 3.8 and later. `sandboxes.toolbox.bundle` packs it into
one file (a zip application) that is shipped into the sandbox. Its pure parts (`text`, `wire`) serve the outside too, so that
paging, globbing and replacing mean the same everywhere.
"""
