"""What checkouts are compared on: servers, configs, skills, files of clients, and the requests of recorded sets.

Knows inputs only; never knows how they are asked or answered.
"""

import json
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import catalog
from behaviour_site import aged

JsonObject = dict[str, Any]

OFFERING = str(catalog.SERVERS / "offering.py")
STATIC = str(catalog.SERVERS / "static.py")
CLIENT_FILES = next((catalog.ROOT / "tests").rglob("client_files.py"))
"""Where the tests have files of other clients; a move of it is no change of behaviour."""
LISTING = str(catalog.SERVERS / "listing.py")
TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
READS, DESTROYS = {"readOnlyHint": True, "openWorldHint": False}, {"readOnlyHint": False, "destructiveHint": True}


def tool(name: str, description: str, required: Sequence[str] = (), **properties: JsonObject) -> JsonObject:
    """Return a tool as a server lists it."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": description, "inputSchema": schema}


ISSUES: JsonObject = {
    "tools": [
        tool(
            "create_issue",
            "Create an issue in a repository. Use it for bugs, tasks and ideas; never for questions.",
            ("repo", "title"),
            repo={**TEXT, "description": "owner/name"},
            title=TEXT,
            labels={"type": "array", "items": TEXT},
            state={"enum": ["open", "closed"]},
            assignee={"type": "object", "properties": {"login": TEXT, "id": NUMBER}, "required": ["login"]},
        )
        | {"annotations": {"readOnlyHint": False, "destructiveHint": False}},
        tool("list_issues", "List issues of a repository.", ("repo",), repo=TEXT, page={**NUMBER, "minimum": 1})
        | {"annotations": READS},
        tool("close_issue", "Close an issue. See also `delete_issue`.", ("number",), number=NUMBER),
        tool("delete_issue", "Delete an issue for good.", ("number",), number=NUMBER) | {"annotations": DESTROYS},
        tool("fail_always", "Fails whatever it is given."),
        tool("refuse_always", "Is refused whatever it is given."),
        tool("long_text", "Answer with many lines.", lines=NUMBER) | {"annotations": READS},
        tool("progress_report", "Reports its progress.", text=TEXT),
        tool("ask_colour", "Asks which colour a person likes."),
        tool("crash_once", "Ends the server."),
        tool("strange name/with.dots", "Has a name that not every client takes.", text=TEXT),
        {
            "name": "shown",
            "title": "Shown with examples",
            "description": "Has\u200b an output schema,\x07 examples and text that is cleaned.",
            "inputSchema": {"type": "object", "properties": {"a": TEXT}, "examples": [{"a": "b"}, {"a": "c"}]},
            "outputSchema": {"type": "object", "properties": {"given": {"type": "object"}}},
        },
        {"name": "no_schema", "description": "Its schema has no type.", "inputSchema": {"properties": {"x": TEXT}}},
        {"name": "bad_schema", "description": "Its schema is none.", "inputSchema": {"type": "array"}},
        {"name": "twice", "description": "Listed twice.", "inputSchema": {"type": "object"}},
        {"name": "twice", "description": "Listed twice.", "inputSchema": {"type": "object"}},
    ],
    "resources": [
        {"uri": "file:///notes/plan.txt", "name": "plan", "description": "The plan.", "mimeType": "text/plain"},
        {"uri": "file:///notes/secret.txt", "name": "secret", "description": "Not for everybody."},
        {"uri": "file:///notes/logo.png", "name": "logo", "mimeType": "image/png"},
    ],
    "templates": [{"uriTemplate": "file:///notes/{name}.txt", "name": "note", "description": "One of the notes."}],
    "prompts": [
        {
            "name": "triage",
            "description": "Sort new issues.",
            "arguments": [{"name": "repo", "description": "owner/name", "required": True}, {"name": "since"}],
        },
        {"name": "drop_all", "description": "Drop every issue."},
    ],
}
MAIL: JsonObject = {
    "tools": [
        tool("send_mail", "Send an e-mail to people.", ("to", "subject"), to=TEXT, subject=TEXT, urgent=FLAG),
        tool("search_mail", "Search e-mail by words, sender or date.", ("query",), query=TEXT) | {"annotations": READS},
        tool("purge_mail", "Remove all e-mail.", ()) | {"annotations": DESTROYS},
    ]
}
OFFERS = {"issues": ISSUES, "mail": MAIL}

ECHO: JsonObject = {"command": sys.executable, "args": [STATIC, "2"]}
"""A server of the SDK's, which speaks 2026-07-28 too. It takes a second of CPU to start."""

LIMITS: JsonObject = {
    "first_index_wait_s": 300,
    "parallel_starts": 1,
    "close_timeout_s": 1,
    "result_max_bytes": 2048,
    "regex_ms": 10_000,
    "schema_check_ms": 10_000,
}
"""Bounds with which no answer depends on how fast the machine is; results are cut early."""

CONFIGS: Mapping[str, JsonObject] = {
    "default": {},
    "stable": {"gate": {"listing": "stable"}},
    "proxy": {"tool_search": {"enabled": False}, "skills": {"enabled": False}},
    "no search tool": {"tool_search": {"include_search_tool": False}},
    "always": {
        "tool_search": {"always_loaded_patterns": ["issues.create_*", "mail.*", "git.git_*"]},
        "servers": {"issues": {"always_loaded_tools": ["list_issues"], "tags": {"list_*": ["backlog"]}}},
    },
    "denied": {
        "policy": {"deny": ["issues.delete_*", "purge_mail", "*.delete_*", "issues.file:///notes/secret*"]},
        "gate": {"call_tools": "single"},
    },
    "exposed": {
        "gate": {"expose": {"resources": "searchable", "prompts": "searchable"}, "pass_through_below": 100},
        "tool_examples": {"max_examples_per_tool": 1},
        "results": {"structured": "always"},
    },
}
"""The key ``toolcrib`` of several configs, by what they are about."""

CALLED: JsonObject = {
    "policy": {
        "deny": ["issues.delete_*", "issues.file:///notes/secret*", "drop_*"],
        "confirm": {"tools": ["mail__send_mail", "mail__search_*"]},
    },
    "servers": {
        "issues": {
            "description": "Issues of repositories",
            "tool_examples": {"create_issue": [{"args": {"repo": "a/b", "title": "It breaks"}, "tags": ["minimal"]}]},
            "side_effects": {"close_issue": "write"},
        }
    },
    "tool_search": {"skill_scoped_patterns": ["mail.purge_*"]},
    "skills": {"outcomes": True, "tool_activation": "auto"},
}
"""The config of the calls."""

SKILLS: Mapping[str, str] = {
    "triage-issues": """\
---
name: triage-issues
description: Sorts new issues. Use when somebody asks what is new, or which issue comes first.
tags: [issues, planning]
tools: [issues__list_issues, issues__close_issue]
---
# Triage

Read what is new with `issues__list_issues`; never use `issues__delete_issue`.
Ask anna.smith@company.io before you begin.

## Steps

1. List the issues, newest first.
2. Close what is done, with a reason.
3. Look into [the rules](rules.md).

## Pitfalls

- Two issues may be about one bug.
""",
    "send-report": """\
---
name: send-report
description: Sends a weekly report by e-mail.
tools: [mail__send_mail, mail__purge_mail]
---
Write three sentences as in [the form](form.md). Send them with `mail__send_mail`.
""",
    "broken": "---\nname: broken\n---\nWithout a description.\n",
}


def write_servers(folder: Path) -> dict[str, JsonObject]:
    """Write what our own servers offer and return their entries in ``mcpServers``."""
    entries: dict[str, JsonObject] = {}
    for key, offer in OFFERS.items():
        file = folder / f"{key}.offer.json"
        file.write_text(json.dumps(offer), encoding="utf-8")
        entries[key] = {"command": sys.executable, "args": ["-S", OFFERING, str(file)]}
    return entries


def write_lists(folder: Path, lists: Mapping[str, Sequence[JsonObject]]) -> dict[str, JsonObject]:
    """Write a list of tools for each server and return their entries in ``mcpServers``."""
    entries: dict[str, JsonObject] = {}
    folder.mkdir(exist_ok=True)
    for key, tools in lists.items():
        file = folder / f"{key}.tools.json"
        file.write_text(json.dumps({"tools": tools}, separators=(",", ":")), encoding="utf-8")
        entries[key] = {"command": sys.executable, "args": ["-S", LISTING, str(file)]}
    return entries


def write_skills(folder: Path) -> None:
    """Write our own skills into a folder."""
    for name, text in SKILLS.items():
        file = folder / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    (folder / "triage-issues" / "rules.md").write_text("# Rules\n\nBugs come first.\n", encoding="utf-8")
    (folder / "send-report" / "form.md").write_text("# Form\n\nDone, next, in the way.\n", encoding="utf-8")
    aged(folder)


def request_set(file: Path) -> tuple[dict[str, list[JsonObject]], list[str]]:
    """Return the tools of a set by server, as a server lists them, and its requests."""
    data = json.loads(file.read_text(encoding="utf-8"))
    lists: dict[str, list[JsonObject]] = {}
    for each in data["tools"]:
        schema = {**(each.get("schema") or {}), "type": "object"}
        listed = {"name": each["name"], "description": each.get("description") or "", "inputSchema": schema}
        tags = {"_meta": {"tags": list(each["tags"])}} if each.get("tags") else {}
        lists.setdefault(each.get("server") or file.stem, []).append(listed | tags)
    return lists, [query["text"] for query in data["queries"]]


def skill_requests(file: Path) -> list[tuple[str, list[str]]]:
    """Return the requests of a set of skills, each with the names of the skills that answer it."""
    lines = file.read_text(encoding="utf-8").splitlines()
    asked = [json.loads(line) for line in lines if line.strip()]
    return [(line["query"], list(line["gold"])) for line in asked]


BROKEN_CONFIGS: Mapping[str, str] = {
    "empty.json": "",
    "open.json": '{"mcpServers": {',
    "list.json": "[]",
    "twice.json": '{"mcpServers": {"a": {"command": "python3"}, "a": {"command": "sh"}}}',
    "slips.json": """{
  // several mistakes, all of which are told
  "mcpServers": {"a": {"command": "python3", "arg": ["-V"]}, "b__c": {"command": "sh"}, "d": {}},
  "toolcrib": {"gat": {"listing": "stable"}, "gate": {"listing": "sometimes"}, "limits": {"name_max": 3},
               "policy": {"deny": "x", "confirm": {"effects": ["all"]}}, "tool_search": {"max_search_results": 0}},
}""",
    "types.yaml": "mcpServers: {a: {command: [uvx, mcp-server-git]}}\n"
    "toolcrib: {events: {level: loud}, http: {port: no}}\n",
    "tabs.yaml": "mcpServers:\n\ta: 1\n",
    "other.json": '{"servers": {"a": {"command": "sh", "args": ["-c", "true"]}}}',
    "codex.toml": '[mcp_servers.a]\ncommand = "a"\n',
    "unset.json": '{"mcpServers": {"a": {"command": "sh", "env": {"X": "${UNSET_ONE}"}}, "b": {"command": "sh"}}}',
    "unset-outside.json": '{"mcpServers": {}, "toolcrib": {"context": {"tenant_id": "${UNSET_ONE}"}}}',
    "rules.json": '{"mcpServers": {"a": {"command": "sh", "excludeTools": ["x"]}, "b": {"url": "http://h/mcp"}}}',
    "missing.json": """{"mcpServers": {"gone": {"command": "no-such-program"}, "self": {"command": "toolcrib",
  "args": ["serve"]}, "words": {"command": "sh -c true"}, "folder": {"command": "sh", "cwd": "/no/such/folder"},
  "key": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer sk-proj-a1B2c3D4a1B2c3D4a1B2c3D4"}},
  "bridge": {"command": "npx", "args": ["-y", "mcp-remote", "https://h/mcp"]}}}""",
    "unsafe.json": '{"toolcrib": {"http": {"host": "0.0.0.0"}, "tool_search": {"activation_scope": "session"}}}',
    "patterns.json": '{"mcpServers": {"a": {"command": "sh"}}, "toolcrib": {"policy": {"deny": ["b.*", "delete_["]}, '
    '"servers": {"c": {}}, "skill_tools": {"nowhere": ["a.b"]}}}',
}
"""Config files with something to tell."""


def client_files() -> list[tuple[str, str, str, Mapping[str, str]]]:
    """Return files as other clients write them: the client, where it keeps it, its text, and other files there."""
    module = runpy.run_path(str(CLIENT_FILES))
    return [(each.client, each.path, each.text, each.beside) for each in module["CLIENT_TEXTS"]]
