"""Skills: their sources, how their files are parsed, and how much of one a model gets."""

PUBLIC = (
    "answers",
    "catalog",
    "doctor",
    "hooks",
    "index",
    "outcomes",
    "overviews",
    "penalties",
    "publishing",
    "relevance",
    "resources",
    "search",
    "use_cases",
)
"""The modules that other packages may import."""
