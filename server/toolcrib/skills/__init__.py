"""Skills: their sources, how their files are parsed, and how much of one a model gets."""
