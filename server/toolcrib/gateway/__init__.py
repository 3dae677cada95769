"""The gateway without a protocol: list, search and call tools, read resources, and what it is composed of."""

PUBLIC = (
    "blocks",
    "composition",
    "instances",
    "missing_servers",
    "offers",
    "offline",
    "programs",
    "results",
    "runtime",
    "status",
    "tasks",
    "tools",
)
"""The modules that other packages may import."""
