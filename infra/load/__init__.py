"""A load for the API, and how it bears it: `python -m infra.load --help`."""
