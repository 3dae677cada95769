"""What every package may use: text, patterns, names, JSON, pages, redaction, errors and shared values."""

PUBLIC = (
    "cache",
    "clocks",
    "document_redaction",
    "errors",
    "handles",
    "json_decoding",
    "json_values",
    "markdown",
    "model",
    "names",
    "paging",
    "patterns",
    "redaction",
    "signals",
    "text",
    "uris",
    "yaml",
)
"""The modules that other packages may import."""
