"""What a file says of a skill."""
