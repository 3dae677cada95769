"""The indexes on disk and the ranking over them."""
