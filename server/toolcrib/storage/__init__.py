"""SQLite files: opened, checked, repaired and written."""

PUBLIC = ("files", "full_text", "opening", "rows", "stems", "store", "vectors")
"""The modules that other packages may import."""
