"""Logins at servers that require OAuth, and the secrets that a config refers to."""

__all__ = ["bearers", "challenges", "fetching", "flow", "keyring", "logins", "oauth", "records", "secrets", "store"]
