"""The released deepagents package: its backends as ours, and ours as its own."""
