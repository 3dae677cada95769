"""Events for the operator of toolcrib: one JSON object a line."""

PUBLIC = ("history", "kinds", "log", "reading", "server_logs")
"""The modules that other packages may import."""
