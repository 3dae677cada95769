"""Downstream servers: their processes and addresses, protocol eras, and lifecycles."""
