"""The free LangGraph server, `langgraph dev`, with a graph that does nothing. It keeps its runs in memory.

It is installed into an environment of its own in the user's folder for caches, and told to call nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.environments import environment, is_made
from benchmarks.runs_world import LOG, free_port, started, wait_until

PACKAGE = "langgraph-cli[inmem]"
GRAPH = '''
from typing import TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict):
    text: str


def done(state):
    return {"text": "done"}


graph = StateGraph(State).add_node("done", done).add_edge(START, "done").compile()
'''
CONFIG = {"dependencies": ["."], "graphs": {"noop": "./graph.py:graph"}}
RUN: dict[str, Any] = {"assistant_id": "noop", "input": {"text": "begin"}}
"""The body of a run."""
OFFLINE = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}


def installed() -> bool:
    """Whether it is there already."""
    return is_made("langgraph", PACKAGE)


@contextmanager
def langgraph_dev(folder: Path, *, jobs: int) -> Iterator[str]:
    """Its address, while it serves; it executes so many runs at once. Its files are in `folder`."""
    folder.mkdir()
    (folder / "graph.py").write_text(GRAPH)
    (folder / "langgraph.json").write_text(json.dumps(CONFIG))
    port = free_port()
    program = environment("langgraph", PACKAGE) / "bin" / "langgraph"
    command = [
        str(program), "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port),
        "--n-jobs-per-worker", str(jobs), "--server-log-level", "warning",
    ]  # fmt: skip
    with started(command, folder, OFFLINE, inside=True) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: process.poll() is not None or _answers(url), "langgraph dev answers")
        if process.poll() is not None:
            raise RuntimeError(f"langgraph dev ended: {(folder / LOG).read_text()[-2000:]}")
        yield url


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ok", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False
