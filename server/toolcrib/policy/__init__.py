"""Who may see and run what: rules, sessions, activations, confirmations, and the decisions of a person."""
