"""Removes secrets and personal data from texts."""
