"""Logging in to servers that ask for it: where what a login gave is kept, and by whom it is used."""
