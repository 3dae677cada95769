"""The config file: its shape, how it is found and read, and what comes out of it."""

PUBLIC = (
    "checks",
    "documents",
    "editing.changes",
    "editing.files",
    "entries",
    "env_file",
    "findings",
    "foreign",
    "launching",
    "loading",
    "paths",
    "private_values",
    "rule_words",
    "schema",
    "servers",
    "settings",
    "switches",
    "tool_rules",
    "variables",
)
"""The modules that other packages may import."""
