"""Events for the operator of toolcrib: one JSON object a line."""

__all__ = ["kinds", "log", "reading", "server_logs"]
