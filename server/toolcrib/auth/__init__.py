"""Logins at servers that require OAuth, and the secrets that a config refers to."""
