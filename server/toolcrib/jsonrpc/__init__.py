"""MCP messages over file descriptors, bounded in both directions, and the adapters to the SDK."""

PUBLIC = ("dispatcher", "pipes", "rate_limit", "sdk", "sdk_http", "sdk_oauth")
"""The modules that other packages may import."""
