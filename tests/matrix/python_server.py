"""A server with one tool for each feature, as the documentation of the Python SDK and FastMCP writes one.

Run as ``python python_server.py FRAMEWORK`` on its pipes, or with a port after it over streamable HTTP on loopback.
FRAMEWORK is ``sdk`` or ``fastmcp``. Questions are pushed up to 2025-11-25 and returned in 2026-07-28, but for the tool
``pushed``, which knows nothing of the newer revision.
"""

import sys
import warnings
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter

IS_FASTMCP = sys.argv[1:2] == ["fastmcp"]

if TYPE_CHECKING or not IS_FASTMCP:
    from mcp.server.mcpserver import Context, MCPServer
else:
    from fastmcp import Context
    from fastmcp import FastMCP as MCPServer

warnings.simplefilter("ignore", MCPDeprecationWarning)
server: Any = MCPServer("everyday", version="1.0.0")
WATCHED = "note://watched"
_cancelled: set[str] = set()
_added: list[str] = []
_request: TypeAdapter[Any] = TypeAdapter(types.InputRequest)
_answers = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "form": {
        "method": "elicitation/create",
        "params": {
            "message": "Which size?",
            "requestedSchema": {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]},
        },
    },
    "url": {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Pay here", "url": "https://example.com/pay", "elicitationId": "pay-1"},
    },
    "sampling": {
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "A slogan?"}}], "maxTokens": 20},
    },
    "roots": {"method": "roots/list", "params": {}},
}


class Order(BaseModel):
    """What the user fills in."""

    size: str


@server.tool()
async def plain(text: str) -> str:
    """Say it again."""
    return f"You said: {text}"


def _add_asking(name: str, question: dict[str, Any]) -> None:
    async def asking(context: Context) -> types.CallToolResult | types.InputRequiredResult:
        if context.request_context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if not context.input_responses:
                return types.InputRequiredResult.model_validate({"inputRequests": {"question": question}})
            answer = context.input_responses["question"]
        else:
            request = _request.validate_python(question, by_name=False)
            answer = await context.session.send_request(request, _answers[request.method])
        said = answer.model_dump_json(by_alias=True, exclude_none=True, exclude={"meta", "result_type"})
        return types.CallToolResult(content=[types.TextContent(text=said)])

    server.tool(name=name, description=f"Ask the client: {name}.")(asking)


for _name, _question in QUESTIONS.items():
    _add_asking(_name, _question)


@server.tool()
async def pushed(context: Context) -> str:
    """Push a form to the user."""
    answer = await context.elicit("Which size?", Order)
    return f"{answer.action}: {answer.data.size if answer.action == 'accept' else 'nothing'}"


@server.tool()
async def log(context: Context) -> str:
    """Log a line."""
    await context.info("Something happened")
    return "logged"


@server.tool()
async def progress(context: Context) -> str:
    """Report progress."""
    for step in (1, 2):
        await context.report_progress(step, 2, f"Step {step}")
        # Some clients drop what they read together with the answer.
        await anyio.sleep(0.05)
    return "done"


@server.resource(WATCHED)
def watched() -> str:
    """Return a note that changes."""
    return "A note"


@server.tool()
async def update(context: Context) -> str:
    """Change the note."""
    if not IS_FASTMCP:
        await context.notify_resource_updated(WATCHED)
    if context.request_context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        await context.session.send_resource_updated(WATCHED)
    return "changed"


@server.prompt()
def said() -> str:
    """Say something."""
    return "Something"


@server.tool()
async def grow(kind: str, context: Context) -> str:
    """Add a tool or a prompt to the list."""
    _added.append(f"added_{len(_added)}")
    is_modern = context.request_context.protocol_version in MODERN_PROTOCOL_VERSIONS
    if kind == "tools":
        server.tool(name=_added[-1], description="Added.")(plain)
        await (_nothing() if IS_FASTMCP else context.notify_tools_changed())
        await (_nothing() if is_modern else context.session.send_tool_list_changed())
    else:
        server.prompt(name=_added[-1], description="Added.")(said)
        await (_nothing() if IS_FASTMCP else context.notify_prompts_changed())
        await (_nothing() if is_modern else context.session.send_prompt_list_changed())
    return "grown"


async def _nothing() -> None:
    """FastMCP serves no subscription streams, and nothing else carries a change to a client of 2026-07-28."""


@server.tool()
async def wait(key: str, context: Context) -> str:
    """Wait until the call is cancelled."""
    try:
        await context.report_progress(1, 2)
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        _cancelled.add(key)
        raise
    return "waited"


@server.tool()
async def cancelled(key: str) -> str:
    """Say whether a waiting call was cancelled."""
    return str(key in _cancelled)


async def _acknowledged(_context: Any, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


# Neither framework has a public way to serve these, which clients of 2025-11-25 subscribe and set their level by.
_low_level: Any = getattr(server, "_mcp_server" if IS_FASTMCP else "_lowlevel_server")
_low_level.add_request_handler("resources/subscribe", types.SubscribeRequestParams, _acknowledged)
_low_level.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, _acknowledged)
_low_level.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _acknowledged)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        server.run("stdio", **({"show_banner": False} if IS_FASTMCP else {}))
    elif IS_FASTMCP:
        server.run("http", port=int(sys.argv[2]), show_banner=False)
    else:
        server.run("streamable-http", port=int(sys.argv[2]))
