"""What a model gets of a skill."""
