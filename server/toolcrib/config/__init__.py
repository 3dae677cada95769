"""The config file: its shape, how it is found and read, and what comes out of it."""

__all__ = [
    "checks",
    "documents",
    "editing.changes",
    "editing.files",
    "findings",
    "loading",
    "paths",
    "private_values",
    "schema",
    "servers",
    "settings",
    "variables",
]
