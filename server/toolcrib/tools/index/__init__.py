"""The index of tools on disk, and the catalog in memory."""
