"""Downstream servers: their processes and addresses, protocol eras, and lifecycles."""

__all__ = [
    "calls",
    "connection",
    "fleet",
    "isolation",
    "lifecycle",
    "offers",
    "process",
    "states",
    "suspended",
    "transport",
]
