"""Who may, who is asking, and what they have activated."""
