"""toolcrib in a Python program: what ``import toolcrib`` offers, without a process or a config file."""

PUBLIC = ("crib", "hits", "results", "search", "skills")
"""The modules that other packages may import."""
