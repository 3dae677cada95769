"""What servers offer: their tools, resources and prompts, indexed, searched, and filtered by caller."""

PUBLIC = (
    "arguments",
    "coercion",
    "config_names",
    "definitions",
    "denied_names",
    "evaluation",
    "failures",
    "gate",
    "in_memory",
    "index",
    "indexing",
    "ingest",
    "instructions",
    "learning",
    "lint",
    "name_detection",
    "offer_search",
    "offers",
    "outputs",
    "own_words",
    "snapshot",
    "tool_search",
    "views",
)
"""The modules that other packages may import."""
