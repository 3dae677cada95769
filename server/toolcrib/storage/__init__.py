"""SQLite files: opened, checked, repaired and written."""

__all__ = ["files", "full_text", "opening", "stems", "store", "vectors"]
