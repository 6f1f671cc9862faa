"""The worker: takes runs from the queue and executes them in sandboxes. Nobody imports it; it is started as a program."""
