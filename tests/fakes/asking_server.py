"""A server as the SDK's documentation writes one: its tools ask the user while they run. With a port it serves HTTP."""

import sys
import warnings
from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("shop")


class Order(BaseModel):
    """What the user fills in."""

    size: str


@server.tool()
async def order(context: Context[Any]) -> str:
    """Order a shirt."""
    answer = await context.elicit("Which size?", Order)
    return f"{answer.action}: {answer.data.size if answer.action == 'accept' else 'nothing'}"


@server.tool()
async def slogan(context: Context[Any]) -> str:
    """Write a slogan with the client's model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sampling is deprecated as of 2026-07-28
        question = types.SamplingMessage(role="user", content=types.TextContent(text="A slogan?"))
        answer = await context.session.create_message([question], max_tokens=20)
    return str(answer.content)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
