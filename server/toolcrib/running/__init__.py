"""Toolcribs that are running: each tells on disk what it is doing, and whoever asks reads what all of them tell."""
