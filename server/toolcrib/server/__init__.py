"""toolcrib as an MCP server: protocol, built-in tools, transports."""

__all__ = ["early", "handshake_cache", "http", "serving", "stdio"]
