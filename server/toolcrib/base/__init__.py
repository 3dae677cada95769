"""Modules without a domain: text, patterns, names, JSON values, pages."""

PUBLIC = (
    "cache",
    "clocks",
    "document_redaction",
    "errors",
    "json_decoding",
    "json_values",
    "markdown",
    "model",
    "names",
    "paging",
    "patterns",
    "redaction",
    "text",
    "uris",
    "yaml",
)
"""The modules that other packages may import."""
