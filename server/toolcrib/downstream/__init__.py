"""Downstream servers: their processes and addresses, protocol eras, and lifecycles."""

PUBLIC = (
    "calls",
    "connection",
    "fleet",
    "head_start",
    "isolation",
    "lifecycle",
    "offers",
    "process",
    "programs",
    "relays",
    "states",
    "suspended",
    "tasks",
    "transport",
)
"""The modules that other packages may import."""
