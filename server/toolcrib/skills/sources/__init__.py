"""Where skills come from, and the only module that opens their files."""
