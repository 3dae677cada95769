"""toolcrib's own tools, and their registry."""
