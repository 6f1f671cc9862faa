"""The least that an API can do: one answer to everything, from memory. `python -m benchmarks.hello PORT` serves it."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

ANSWER = {"id": "run-000000000000", "name": "noop", "status": "pending"}


async def hello(request: Request) -> JSONResponse:
    """Reads what is sent, as any API would."""
    await request.body()
    return JSONResponse(ANSWER)


app = Starlette(routes=[Route("/{path:path}", hello, methods=["GET", "POST"])])

if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
