"""The one door: everything that a command line or an API may do.

`Service` is the door of one tenant: nothing that goes through it sees or changes what is another tenant's. `Service.of` gives
the door of another one over the same connections. Beside runs, its rooms are attributes, a module each.
"""

from orchestrator.service.door import Named, Service

__all__ = ["Named", "Service"]
