"""Validation of arguments against schemas, in bounded time."""
