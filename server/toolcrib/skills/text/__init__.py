"""What a model is given of a skill."""
