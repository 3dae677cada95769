"""Arguments against schemas, in bounded time."""
