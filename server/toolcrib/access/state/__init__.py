"""What a person has decided, and what cannot be made again: one file outside the cache."""
