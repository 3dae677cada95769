"""A server with one tool that only reads, over stdio: ``read {"size": N}`` answers with so many characters."""

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

READ = types.Tool(
    name="read",
    description="Read a text of a size.",
    input_schema={"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]},
    annotations=types.ToolAnnotations(read_only_hint=True),
)


async def list_tools(_context, _params):
    return types.ListToolsResult(tools=[READ])


async def call_tool(_context, params):
    return types.CallToolResult(content=[types.TextContent(text="x" * params.arguments["size"])])


async def main():
    server = Server("sized", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
