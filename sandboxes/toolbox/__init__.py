"""The toolbox: one resident helper in each sandbox, and the client that talks to it over one open stream."""
