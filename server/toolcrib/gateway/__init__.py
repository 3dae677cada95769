"""The gateway without a protocol: list, search and call tools, read resources, and what it is composed of."""

__all__ = ["composition", "instances", "missing_servers", "offers", "offline", "results", "status", "tools"]
