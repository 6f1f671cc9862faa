"""The client of the API, blocking and asynchronous: `Client(url, key)` and `AsyncClient(url, key)`.

    with Client("http://127.0.0.1:8000", "ffk_...") as client:
        run = client.runs.create({"command": "make test", "inputs": {"path": "."}})
        for event in client.runs.follow(run.id):
            print(event.type)
        print(client.runs.get(run.id).status)

It imports neither the server nor what a server stands on.
"""

from orchestrator.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
