"""One ranking for tools and skills."""

__all__ = [
    "disk_postings",
    "documents",
    "engine",
    "english",
    "learned_words",
    "postings",
    "query",
    "ranking",
    "semantic",
]
