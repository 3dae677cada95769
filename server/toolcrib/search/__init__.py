"""One ranking for tools and skills."""

PUBLIC = (
    "capabilities",
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
