"""The gateway without a protocol: list, search and call tools, read resources, and what it is composed of."""
