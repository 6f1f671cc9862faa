"""The plan: langchain's to-do list, without the step of the graph that it takes after each answer of the model."""

from __future__ import annotations

from typing import Annotated, Any

from langchain.agents.middleware import AgentMiddleware, TodoListMiddleware
from langchain.agents.middleware.todo import WriteTodosInput
from langchain_core.messages import AIMessage
from langchain_core.tools import InjectedToolArg, StructuredTool, ToolException

TODO_PROMPT = """\
For work of three steps or more, keep a list with write_todos: mark a step in_progress when you begin it and completed when it
is done. Call write_todos once in an answer at most.
"""
TODO_TOOL = (
    "Write down the steps of your work and how far each is. Each call replaces the whole list. "
    "It is for keeping track only: results belong in your answers."
)

Runtime = Annotated[Any, InjectedToolArg]


class Todos(TodoListMiddleware[Any, Any]):
    """Gives an agent `write_todos`. That one answer writes two lists is refused by the tool itself."""

    after_model = AgentMiddleware.after_model
    aafter_model = AgentMiddleware.aafter_model

    def __init__(self) -> None:
        super().__init__(system_prompt=TODO_PROMPT, tool_description=TODO_TOOL)
        [given] = self.tools
        assert isinstance(given, StructuredTool)
        write, awrite = given.func, given.coroutine
        assert write is not None
        assert awrite is not None

        def write_todos(todos: list[Any], runtime: Runtime) -> Any:
            _check_alone(runtime)
            return write(runtime=runtime, todos=todos)

        async def awrite_todos(todos: list[Any], runtime: Runtime) -> Any:
            _check_alone(runtime)
            return await awrite(runtime=runtime, todos=todos)

        self.tools = [
            StructuredTool(
                name=given.name,
                description=TODO_TOOL,
                args_schema=WriteTodosInput,
                func=write_todos,
                coroutine=awrite_todos,
                handle_tool_error=True,
            )
        ]

    @property
    def name(self) -> str:
        """langchain's: a user's own `TodoListMiddleware` takes the place of this one."""
        return TodoListMiddleware.__name__


class ToldTodos(Todos):
    """`Todos` for an agent whose system prompt has `TODO_PROMPT` already."""

    wrap_model_call: Any = AgentMiddleware.wrap_model_call
    awrap_model_call: Any = AgentMiddleware.awrap_model_call


def _check_alone(runtime: Any) -> None:
    answer = next((message for message in reversed(runtime.state["messages"]) if isinstance(message, AIMessage)), None)
    if answer is not None and sum(call["name"] == "write_todos" for call in answer.tool_calls) > 1:
        raise ToolException("Error: write_todos replaces the whole list, so call it once in an answer; nothing was written")
