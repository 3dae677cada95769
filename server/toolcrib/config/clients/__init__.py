"""Config files of other MCP clients."""
