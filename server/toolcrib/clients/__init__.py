"""Config files of other MCP clients: read, imported, and connected to toolcrib."""

PUBLIC = ("connecting", "importing", "known", "reading")
"""The modules that other packages may import."""
