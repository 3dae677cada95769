"""Config files of other MCP clients: read, imported, and connected to toolcrib."""

__all__ = ["connecting", "importing", "known", "reading"]
