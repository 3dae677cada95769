"""Downstream servers: their processes and addresses, their protocol eras, their lives."""
