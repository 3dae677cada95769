"""One ranking for tools and skills."""

PUBLIC = (
    "confidence",
    "disk_postings",
    "documents",
    "engine",
    "english",
    "learned_words",
    "postings",
    "query",
    "ranking",
    "semantic",
    "static_model",
)
"""The modules that other packages may import."""
