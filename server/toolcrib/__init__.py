"""toolcrib: one MCP server in front of all of a person's MCP servers and skills."""

__version__ = "0.1.0"
