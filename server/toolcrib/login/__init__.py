"""Logging in to servers that require it: how logins are made, stored and used."""
