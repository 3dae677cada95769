"""toolcrib's own tools: one file per tool, and their registry."""
