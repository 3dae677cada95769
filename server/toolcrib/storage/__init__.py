"""SQLite files: opened, checked, repaired and written."""
