"""Leaves without a subject: text, patterns, names, JSON values, pages."""
