"""Before anything heavy is imported: a greeting that was given before and still holds."""
