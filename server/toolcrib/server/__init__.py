"""toolcrib as an MCP server: protocol, built-in tools, transports."""
