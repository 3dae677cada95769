"""toolcrib as an MCP server: protocol, built-in tools, transports."""

PUBLIC = ("early", "handshake_cache", "http", "serving", "stdio")
"""The modules that other packages may import."""
