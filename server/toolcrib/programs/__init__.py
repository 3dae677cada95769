"""Programs over tools: their source read and checked, and run in a worker process that has nothing but those tools."""

PUBLIC = ("dialect", "installed", "places", "running", "source", "workers")
"""The modules that other packages may import."""
