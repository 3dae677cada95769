"""Skills: where they are found, how a file of one is read, and how much of it a model gets."""
