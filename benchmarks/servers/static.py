"""The least that the SDK makes of a server: ``static.py COUNT`` lists that many tools, all saying the same, over stdio.

``static.py COUNT PORT`` serves them over streamable HTTP.
"""

import sys

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

TEXT = types.Tool(
    name="echo",
    description="Say something back.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
TOOLS = [TEXT, *(TEXT.model_copy(update={"name": f"echo_{number}"}) for number in range(1, int(sys.argv[1])))]
ANSWER = types.CallToolResult(content=[types.TextContent(text="x" * 200)])


async def list_tools(_context, _params):
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(_context, _params):
    return ANSWER


async def main():
    server = Server("static", on_list_tools=list_tools, on_call_tool=call_tool)
    if sys.argv[2:]:
        import uvicorn

        config = uvicorn.Config(server.streamable_http_app(), port=int(sys.argv[2]), log_level="error")
        await uvicorn.Server(config).serve()
        return
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
