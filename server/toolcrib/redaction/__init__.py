"""What must not be told, taken out of texts."""
