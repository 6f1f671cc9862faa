"""Fanfold beside its peers: ratios measured in one run, on one machine. See README.md."""
