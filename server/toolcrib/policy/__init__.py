"""Who may see and run what: rules, sessions, activations, confirmations, and the decisions of a person."""

PUBLIC = ("activations", "asking", "client_profiles", "confirmations", "rules", "sessions", "state")
"""The modules that other packages may import."""
