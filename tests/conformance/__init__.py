"""toolcrib under the official conformance suite: a whole server behind it, and the suite in front of it."""
