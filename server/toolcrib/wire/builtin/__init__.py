"""toolcrib's own tools: one file a tool, and the registry that says which there are."""
