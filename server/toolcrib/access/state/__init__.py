"""Decisions of a person and other data that cannot be rebuilt: one file outside the cache."""
