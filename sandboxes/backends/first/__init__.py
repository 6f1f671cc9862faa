"""The first version of the protocol: adapters to the current one, and what its texts look like."""
