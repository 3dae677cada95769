"""toolcrib as an MCP server: protocol, built-in tools, transports."""

PUBLIC = ("early", "http", "serving", "stdio")
"""The modules that other packages may import."""
