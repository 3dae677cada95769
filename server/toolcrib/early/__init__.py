"""Before anything heavy is imported: an earlier ``initialize`` answer that is still valid."""
