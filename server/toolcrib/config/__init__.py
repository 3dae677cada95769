"""The config file: its shape, how it is found and read, and what comes out of it."""
