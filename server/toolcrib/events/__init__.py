"""Events for the operator of toolcrib: one JSON object a line."""
