"""Tools of downstream servers: indexed, found, listed and called."""
