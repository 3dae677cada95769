"""Tool definitions in any number, each some 1.5 kB as compact JSON and each a little different."""

VERBS = (
    "create",
    "list",
    "get",
    "update",
    "delete",
    "search",
    "export",
    "archive",
    "merge",
    "assign",
    "publish",
)
NOUNS = (
    "issue",
    "invoice",
    "branch",
    "ticket",
    "dashboard",
    "calendar event",
    "customer",
    "pipeline",
    "page",
)
DETAILS = (
    (
        "workspace_id",
        "string",
        "Identifier of the workspace that the request is limited to, as its settings show it.",
    ),
    ("labels", "array", "Labels to match, all of them. An unknown label is ignored and named in the answer."),
    (
        "state",
        "string",
        "Which state to look at: open, closed or all. Defaults to open where nothing is given.",
    ),
    (
        "limit",
        "integer",
        "The greatest number of entries to return, between 1 and 100. Defaults to 20 entries.",
    ),
    (
        "updated_after",
        "string",
        "Only entries changed after this moment, in ISO 8601 with a time zone, are returned.",
    ),
    (
        "include_archived",
        "boolean",
        "Whether archived entries count too. They are left out unless this is true.",
    ),
    ("notify", "boolean", "Whether the people who watch the entry get a message about what was done to it."),
    (
        "comment",
        "string",
        "A remark that is kept with the entry's history and shown to everybody who can read it.",
    ),
)


def tools(count: int) -> list[dict]:
    """Return ``count`` definitions, the same ones at every call."""
    return [definition(number) for number in range(count)]


def definition(number: int) -> dict:
    """Return the definition of one generated tool; the number is part of its name."""
    verb, noun = VERBS[number % len(VERBS)], NOUNS[number // len(VERBS) % len(NOUNS)]
    key = f"{noun.replace(' ', '_')}_id"
    properties: dict[str, dict] = {
        key: {"type": "string", "description": f"The {noun} to {verb}, by its id or by its full address."}
    }
    for name, kind, description in DETAILS:
        extra = {"items": {"type": "string"}} if kind == "array" else {}
        properties[name] = {"type": kind, "description": description, **extra}
    return {
        "name": f"{verb}_{noun.replace(' ', '_')}_{number}",
        "title": f"{verb} {noun}".capitalize(),
        "description": f"{verb.capitalize()} a {noun} of collection {number}. Answers with the {noun} as it is "
        "afterwards, and with the names of the fields that were changed by it.",
        "inputSchema": {"type": "object", "properties": properties, "required": [key]},
        "annotations": {
            "readOnlyHint": verb in ("list", "get", "search"),
            "destructiveHint": verb == "delete",
        },
    }
