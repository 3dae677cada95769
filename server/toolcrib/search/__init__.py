"""One ranking for tools and skills."""
