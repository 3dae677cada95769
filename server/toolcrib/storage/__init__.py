"""Opens, checks, repairs and writes SQLite files."""

PUBLIC = ("files", "full_text", "opening", "rows", "stems", "store", "vectors")
"""The modules that other packages may import."""
