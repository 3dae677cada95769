"""Who may see and run what: rules, sessions, activations, confirmations, and the decisions of a person."""

__all__ = ["activations", "asking", "client_profiles", "confirmations", "rules", "sessions", "state"]
