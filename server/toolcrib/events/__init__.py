"""What is told to whoever operates toolcrib: one JSON object a line."""
