"""Where files live and where commands run: backends, sandbox providers and the toolbox inside a sandbox.

A library of its own: it imports nothing of the orchestrator.
"""
