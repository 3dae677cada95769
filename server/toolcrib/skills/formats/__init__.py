"""Parsers of skill files."""
