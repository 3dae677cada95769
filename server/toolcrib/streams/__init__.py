"""Descriptors and messages."""
