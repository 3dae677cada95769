"""From a downstream's raw tool to a record of the index."""
