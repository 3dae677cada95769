"""Config files of other MCP clients: read, imported, and connected to toolcrib."""
