"""Logins at servers that require OAuth, and the secrets that a config refers to."""

PUBLIC = ("bearers", "challenges", "fetching", "flow", "keyring", "logins", "oauth", "records", "secrets")
"""The modules that other packages may import."""
