"""MCP messages over file descriptors, bounded in both directions, and the adapters to the SDK."""

__all__ = ["dispatcher", "pipes", "rate_limit", "sdk", "sdk_http", "sdk_oauth"]
