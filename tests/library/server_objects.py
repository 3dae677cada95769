"""Servers that are objects of the program that opens them."""

from mcp.server.mcpserver import MCPServer


def files() -> MCPServer:
    """Return a server that reads files."""
    server = MCPServer("files")

    @server.tool()
    def read_file(path: str) -> str:
        """Read a file."""
        return f"content of {path}"

    return server
