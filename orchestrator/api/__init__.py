"""The HTTP API: a thin layer over the service. Each resource is a module of `routes`."""
