"""MCP messages over file descriptors, bounded in both directions, and the adapters to the SDK."""
