"""The index of skills on disk."""
