"""Parsers of untrusted documents."""
