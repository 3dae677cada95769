"""Where skills lie, and the one door to their bytes."""
