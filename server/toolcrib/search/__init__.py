"""One ranking for tools and skills."""

PUBLIC = (
    "disk_postings",
    "documents",
    "engine",
    "english",
    "learned_words",
    "postings",
    "query",
    "ranking",
    "semantic",
)
"""The modules that other packages may import."""
