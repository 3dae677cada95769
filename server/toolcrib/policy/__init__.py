"""Who may see and run what: rules, sessions, activations, confirmations, and the decisions of a person."""

PUBLIC = ("client_profiles", "confirmations", "questions", "requests", "rules", "sessions", "state")
"""The modules that other packages may import."""
