"""The orchestrator: takes runs, records them, queues them, and executes them in sandboxes."""
