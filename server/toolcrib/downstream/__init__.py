"""Downstream servers: their processes and addresses, protocol eras, and lifecycles."""

PUBLIC = (
    "connection",
    "fleet",
    "isolation",
    "lifecycle",
    "offers",
    "process",
    "programs",
    "states",
    "suspended",
    "transport",
)
"""The modules that other packages may import."""
