"""Folders of this machine: contained by directory descriptors, searched, and commands beside them."""
