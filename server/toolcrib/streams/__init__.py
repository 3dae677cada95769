"""Transports: descriptors and messages."""
