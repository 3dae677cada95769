"""Modules without a domain: text, patterns, names, JSON values, pages."""
