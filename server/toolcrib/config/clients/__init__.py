"""Files in which other MCP clients keep their servers."""
