"""What checkouts are compared in, and how each is asked: lists, searches, calls, the command line, documents, files.

Knows what to ask and through which door, all of them toolcrib's own; never knows how answers are compared.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import behaviour_inputs as inputs
from behaviour_site import (
    LEGACY,
    MODERN,
    Answers,
    Client,
    Conversation,
    HttpServed,
    JsonObject,
    World,
    normalised,
    result_of,
    schema_of,
)

ASPECTS = ("tools", "search", "calls", "http", "events", "cli", "documents", "databases", "upgrade")
SIDES = {"events": ("tools", "search", "calls"), "databases": ("calls",)}
"""Aspects that others leave behind."""

EVERY = 25
"""Of the requests of a set, one in so many is asked in other ways too."""

FORM = {"elicitation": {"form": {}, "url": {}}}
_RANDOM = re.compile(r'(\\?"(?:handle|requestState|elicitationId)\\?": ?\\?")[\w-]{20,}')
_FOLLOWING = re.compile(r"call toolcrib's (\w+) with (\{.*?\})\.")


@dataclass(frozen=True, slots=True)
class Given:
    """What a checkout is asked about: folders that may not be there, and at most how many requests of each.

    ``kept`` is where the first checkout leaves files for itself and the other one to start on.
    """

    catalog: Path
    requests: Path
    skills: Path
    kept: Path
    most: int | None = None


@dataclass(slots=True)
class Recording:
    """What a checkout said, by aspect and question."""

    answers: dict[str, Answers] = field(default_factory=dict)

    def keep(self, aspect: str, question: str, answer: str) -> None:
        """Keep an answer; a question that is asked again gets a number."""
        of_aspect = self.answers.setdefault(aspect, {})
        number = 1
        while (key := question if number == 1 else f"{question} ({number})") in of_aspect:
            number += 1
        of_aspect[key] = answer


Job = Callable[[World, Recording], None]


def configured(world: World, servers: JsonObject, section: JsonObject, name: str = "toolcrib.json") -> Path:
    """Write a config into a world, with bounds that make its answers independent of the machine's speed."""
    limits = {**inputs.LIMITS, **section.get("limits", {})}
    whole = {"cache_dir": str(world.folder / "cache"), **section, "limits": limits}
    return world.wrote(name, {"mcpServers": servers, "toolcrib": whole})


def jobs(wanted: Sequence[str], given: Given) -> dict[str, Job]:
    """Return what has to be done for some aspects, by name; each in a world of its own."""
    needed = {*wanted, *(other for aspect in wanted for other in SIDES.get(aspect, ()))}
    found: dict[str, Job] = _cli_jobs() if "cli" in needed else {}
    if "search" in needed:
        found |= _search_jobs(given)
    if "calls" in needed:
        found |= {"calls": _calls, "calls, no session": _modern_calls, "calls, servers that fail": _failing_calls}
    if "tools" in needed:
        found |= _tools_jobs(given)
    alone: dict[str, Job] = {"http": _http, "upgrade": partial(_upgrade, given.kept), "documents": _documents}
    return found | {name: job for name, job in alone.items() if name in needed}


# -- lists ---------------------------------------------------------------------------------------


_HOSTS = ("claude-code", "codex-mcp-client", "opencode")
_STABLE = ("--listing", "stable")


def _tools_jobs(given: Given) -> dict[str, Job]:
    found: dict[str, Job] = {f"tools, {name}": partial(_lists, name) for name in inputs.CONFIGS}
    lists = inputs.catalog.captured(given.catalog)
    for name in ("default", "proxy", "denied") if lists else ():
        found[f"tools, {name}, catalog"] = partial(_lists_of_catalog, name, lists)
    return found


def _lists(name: str, world: World, recording: Recording) -> None:
    inputs.write_skills(world.project / ".agents" / "skills")
    config = configured(world, inputs.write_servers(world.folder), inputs.CONFIGS[name])
    if name == "no search tool":  # nothing else waits for every server
        world.command("index", "refresh", "--config", str(config))
    _first_start(world, config, name, recording)
    is_default = name == "default"
    for host in ("behaviour", *(_HOSTS if is_default else ())):
        with world.served(config) as conversation:
            _list_all(conversation, Client(host), f"{name}, {host}", recording)
    for options in (_STABLE, *([()] if is_default else [])):
        with world.served(config, *options) as conversation:
            _list_all(conversation, Client(era=MODERN), f"{name}, {MODERN} {' '.join(options)}", recording)
    keep_events(world, f"tools, {name}", recording)


def _lists_of_catalog(name: str, lists: Mapping[str, list[JsonObject]], world: World, recording: Recording) -> None:
    config = configured(world, inputs.write_lists(world.folder / "lists", lists), inputs.CONFIGS[name])
    label = f"{name}, catalog"
    _first_start(world, config, label, recording)
    for options in ((), _STABLE):
        client = Client(era=MODERN if options else LEGACY)
        with world.served(config, *options) as conversation:
            _list_all(conversation, client, f"{label}, {client.era}", recording)
    keep_events(world, f"tools, {label}", recording)


def _first_start(world: World, config: Path, label: str, recording: Recording) -> None:
    """Have every server listed and every skill read once, which the handshake waits for only a moment."""
    with world.served(config) as conversation:
        conversation.opened(Client())
        conversation.called("tool_search", {"query": "anything"})
        recording.keep("tools", f"{label}, first start, tools/list", _answer(conversation.said("tools/list", {})))


def _list_all(conversation: Conversation, client: Client, label: str, recording: Recording) -> None:
    recording.keep("tools", f"{label}, greeting", conversation.opened(client))
    conversation.said("ping", {})
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        recording.keep("tools", f"{label}, {method}", _answer(conversation.said(method, {})))
    used = conversation.called("issues__list_issues", {"repo": "a/b"})
    recording.keep("tools", f"{label}, a call", _answer(used))
    recording.keep("tools", f"{label}, tools/list after a call", _answer(conversation.said("tools/list", {})))
    recording.keep("tools", f"{label}, end", conversation.end())


def _answer(said: str) -> str:
    """Return the last line of what was said: the answer, without what else arrived meanwhile."""
    return said.rpartition("\n")[2]


# -- searches ------------------------------------------------------------------------------------


def _search_jobs(given: Given) -> dict[str, Job]:
    found: dict[str, Job] = {}
    for file in sorted(given.requests.glob("*.json")):
        found[f"search, {file.stem}"] = partial(_search, file, given.most)
    lists = inputs.catalog.captured(given.catalog)
    if lists:
        found["search, catalog"] = partial(_search_catalog, lists, given)
    if (given.skills / "queries.jsonl").is_file():
        found["search, skills"] = partial(_search_skills, given)
    return found


def _search(file: Path, most: int | None, world: World, recording: Recording) -> None:
    lists, queries = inputs.request_set(file)
    config = configured(world, inputs.write_lists(world.folder / "lists", lists), {"skills": {"enabled": False}})
    with world.served(config) as conversation:
        conversation.opened(Client())
        conversation.called("tool_search", {"query": "anything"})
        _search_each(conversation, file.stem, queries[:most], recording)
    keep_events(world, f"search, {file.stem}", recording)


def _search_each(conversation: Conversation, label: str, queries: Sequence[str], recording: Recording) -> None:
    for number, query in enumerate(queries):
        asked = f"{label} {number}: {query[:80]!r}"
        recording.keep("search", asked, conversation.called("tool_search", {"query": query}))
        for more in _variants(query) if number % EVERY == 0 else ():
            said = conversation.called("tool_search", {"query": query, **more})
            recording.keep("search", f"{asked} {json.dumps(more)}", said)


def _variants(query: str) -> Iterator[JsonObject]:
    word = next(iter(sorted(re.findall(r"[a-z]{4,}", query.lower()), key=len, reverse=True)), "get")
    yield {"limit": 20}
    yield {"detail": "schema", "limit": 3}
    yield {"include_always_loaded": True, "limit": 1}
    yield {"query": f"{word[:5]}.*", "search_type": "regex"}
    yield {"query": word, "search_type": "exact"}


def _search_catalog(lists: Mapping[str, list[JsonObject]], given: Given, world: World, recording: Recording) -> None:
    section = {
        "skills": {"enabled": False},
        "policy": {"deny": ["*.delete_*", "github.*"]},
        "tool_search": {"always_loaded_patterns": ["time.*"], "preferred_namespaces": ["gitlab"]},
    }
    config = configured(world, inputs.write_lists(world.folder / "lists", lists), section)
    queries = [
        tool.get("title") or tool.get("description") or tool["name"] for tools in lists.values() for tool in tools[::10]
    ]
    with world.served(config) as conversation:
        conversation.opened(Client())
        conversation.called("tool_search", {"query": "anything"})
        _search_each(conversation, "catalog", [query[:200] for query in queries][: given.most], recording)
        for server in lists:
            said = conversation.called("tool_search", {"query": "list everything", "server": server})
            recording.keep("search", f"catalog, server {server}", said)
    for number, query in enumerate(queries[:40:10]):
        said = world.command("search", "--json", "--config", str(config), query[:200])
        recording.keep("search", f"catalog, toolcrib search {number}", said)
    keep_events(world, "search, catalog", recording)


def _search_skills(given: Given, world: World, recording: Recording) -> None:
    section = {"skills": {"skill_dirs": [str(given.skills / "corpus")], "discover": []}}
    config = configured(world, {}, section)
    asked = inputs.skill_requests(given.skills / "queries.jsonl")[: given.most]
    world.command("skills", "list", "--config", str(config))  # reads all skills, which a handshake does not wait for

    def keep(question: str, tool: str, arguments: JsonObject) -> JsonObject:
        said = conversation.called(tool, arguments)
        recording.keep("search", f"skills, {question}", said)
        return result_of(said)

    with world.served(config) as conversation:
        recording.keep("search", "skills, initialize", conversation.opened(Client()))
        for number, (query, names) in enumerate(asked):
            keep(f"{number}: {query!r}", "skill_search", {"query": query})
            keep(
                f"{number}, got", "skill_get", {"names": names[:2] or ["none"], "max_tokens": 300 + 150 * (number % 9)}
            )
            if number % 5 == 0:
                keep(f"{number}, usable", "skill_search", {"query": query, "usable": True, "limit": 3})
                keep(
                    f"{number}, forced", "skill_get", {"names": names[:1] or ["none"], "force": True, "format": "full"}
                )
        cursor: JsonObject = {}
        for page in range(10):
            answer = keep(f"list {page}", "skill_list", {"page_size": 200, **cursor}).get("structuredContent", {})
            if "next_cursor" not in answer:
                break
            cursor = {"cursor": answer["next_cursor"]}
        for method in ("resources/list", "prompts/list", "skills/list"):
            recording.keep("search", f"skills, {method}", conversation.said(method, {}))
        recording.keep("search", "skills, end", conversation.end())
    keep_events(world, "search, skills", recording)


# -- calls ---------------------------------------------------------------------------------------


def _said_yes(answer: str) -> JsonObject:
    return {"result": {"action": "accept", "content": {"answer": answer}}}


CREATED: JsonObject = {"repo": "a/b", "title": "It breaks"}
SENT: JsonObject = {"to": "ann", "subject": "Hello"}
CALLS: Sequence[tuple[str, JsonObject]] = (
    ("issues__create_issue", CREATED),
    ("issues__create_issue", {"repo": "a/b"}),
    ("tool_call", {"name": "issues__create_issue", "arguments": CREATED}),
    ("tool_call", {"name": "issues.create_issue", "arguments": CREATED}),
    ("tool_call", {"name": "issues/create_issue", "arguments": json.dumps(CREATED)}),
    ("tool_call", {"name": "issues:create_issue", "arguments": {"arguments": CREATED}}),
    ("tool_call", {"name": "create_issue", "arguments": CREATED}),
    ("tool_call", {"name": "issues__create_isue", "arguments": CREATED}),
    ("tool_call", {"name": "issues__create_issue", "arguments": {"repo": 1, "labels": "x", "assignee": {"id": "y"}}}),
    ("tool_call", {"name": "issues__list_issues", "arguments": {"repo": "a/b", "page": 0}}),
    ("tool_call", {"arguments": {}}),
    ("tool_call", {"name": 1}),
    ("tool_call", {"name": "issues__list_issues", "arguments": [1]}),
    ("tool_call", {"name": "issues__list_issues", "arguments": {"repo": "a/b"}, "more": True}),
    ("tool_call_read", {"name": "issues__list_issues", "arguments": {"repo": "a/b"}}),
    ("tool_call_read", {"name": "issues__create_issue", "arguments": CREATED}),
    ("issues__delete_issue", {"number": 1}),
    ("tool_call", {"name": "issues__delete_issue", "arguments": {"number": 1}}),
    ("issues__nothing", {}),
    ("nowhere__nothing", {}),
    ("issues__fail_always", {}),
    ("issues__refuse_always", {}),
    ("tool_call", {"name": "issues__refuse_always", "arguments": {}}),
    ("issues__shown", {"a": "b"}),
    ("echo__echo", {"text": "said"}),
    ("echo__echo_1", {}),
    ("issues__strange-name-with-dots-372370d9", {"text": "x"}),
    ("mail__purge_mail", {}),
    ("tool_search", {"query": "strange name"}),
    ("tool_search", {"query": " "}),
    ("tool_search", {}),
    ("tool_search", {"query": "x", "limit": 0}),
    ("tool_search", {"query": "x", "limit": 100}),
    ("tool_search", {"query": "x", "search_type": "words"}),
    ("tool_search", {"query": "(", "search_type": "regex"}),
    ("tool_search", {"query": "a" * 300, "search_type": "regex"}),
    ("tool_search", {"query": "issue", "server": "isues"}),
    ("tool_search", {"query": "create an issue\nsend a mail"}),
    ("tool_search", {"query": "lösche das Issue"}),
    ("tool_search", {"query": "delete_issue"}),
    ("tool_search", {"query": "x" * 3000}),
    ("tool_search", {"query": "issues__create_issue", "detail": "schema"}),
    ("mail__send_mail", SENT),
    ("tool_call", {"name": "mail__send_mail", "arguments": SENT}),
    ("mail__send_mail", SENT),
    ("mail__search_mail", {"query": "ann"}),
    ("mail__search_mail", {"query": "ann"}),
    ("issues__ask_colour", {}),
    ("issues__ask_colour", {}),
    ("skill_search", {"query": "sort issues"}),
    ("skill_search", {"query": "send"}),
    ("skill_search", {"query": "sen.*", "search_type": "regex"}),
    ("skill_list", {}),
    ("skill_list", {"page_size": 0}),
    ("skill_list", {"page_size": 5, "cursor": "none"}),
    ("skill_get", {"names": ["triage-issues"]}),
    ("skill_get", {"names": ["triage-issues"]}),
    ("skill_get", {"names": ["triage-issues"], "force": True, "max_tokens": 200}),
    ("skill_get", {"names": ["triage-issues"], "file": "rules.md"}),
    ("skill_get", {"names": ["triage-issues"], "file": "../../secret"}),
    ("skill_get", {"names": ["triage-isues", "send-report"]}),
    ("skill_get", {"names": []}),
    ("skill_activate", {"names": ["send-report"]}),
    ("skill_activate", {"names": ["nothing"]}),
    ("mail__purge_mail", {}),
    ("skill_deactivate", {"names": ["send-report"]}),
    ("mail__purge_mail", {}),
    ("skill_report_outcome", {"name": "triage-issues", "success": True, "note": "all sorted"}),
    ("skill_report_outcome", {"name": "triage-issues"}),
    ("issues__crash_once", {}),
    ("issues__list_issues", {"repo": "a/b"}),
    ("read_more", {"handle": "none"}),
)
REQUESTS: Sequence[tuple[str, JsonObject]] = (
    ("ping", {}),
    ("tools/list", {"cursor": "x"}),
    ("tools/call", {}),
    ("tools/call", {"name": "tool_search", "arguments": []}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "toolcrib://servers/issues/file:///notes/plan.txt"}),
    ("resources/read", {"uri": "toolcrib://servers/issues/file:///notes/logo.png"}),
    ("resources/read", {"uri": "toolcrib://servers/issues/file:///notes/secret.txt"}),
    ("resources/read", {"uri": "toolcrib://servers/issues/file:///notes/missing"}),
    ("resources/read", {"uri": "toolcrib://servers/none/file:///x"}),
    ("resources/read", {"uri": "skill://repo/triage-issues/SKILL.md"}),
    ("resources/read", {"uri": "skill://repo/send-report/SKILL.md"}),
    ("resources/read", {"uri": "skill://repo/send-report/form.md"}),
    ("resources/read", {"uri": "toolcrib://skills"}),
    ("resources/read", {"uri": "skill://repo/none/SKILL.md"}),
    ("resources/read", {"uri": "toolcrib://status"}),
    ("resources/subscribe", {"uri": "toolcrib://servers/issues/file:///notes/plan.txt"}),
    ("resources/unsubscribe", {"uri": "toolcrib://servers/issues/file:///notes/plan.txt"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "issues__triage", "arguments": {"repo": "a/b"}}),
    ("prompts/get", {"name": "issues__drop_all"}),
    ("prompts/get", {"name": "skill", "arguments": {"name": "triage-issues"}}),
    ("prompts/get", {"name": "skills_for_task", "arguments": {"task": "sort new issues"}}),
    ("prompts/get", {"name": "none"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "issues__triage"}, "argument": {"name": "repo", "value": "al"}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "skill"}, "argument": {"name": "name", "value": "tri"}},
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "toolcrib://servers/issues/file:///notes/{name}.txt"},
            "argument": {"name": "name", "value": "b"},
        },
    ),
    ("skills/list", {}),
    ("skills/get", {"uri": "skill://repo/send-report/SKILL.md"}),
    ("skills/get", {"name": "send-report"}),
    ("resources/directory/read", {"uri": "skill://repo/send-report"}),
    ("logging/setLevel", {"level": "error"}),
    ("no/such/method", {}),
)
LINES = (
    "this is no JSON",
    "[]",
    '{"jsonrpc": "2.0"}',
    '{"id": 1000, "method": "ping"}',
    '{"jsonrpc": "2.0", "id": null}',
)


_FAILING: JsonObject = {
    "broken": {"command": "/bin/sh", "args": ["-c", "echo cannot start >&2; exit 4"]},
    "gone": {"command": "no-such-program-at-all"},
}


def _calls_world(world: World, more: JsonObject) -> Path:
    inputs.write_skills(world.project / ".agents" / "skills")
    return configured(world, {**inputs.write_servers(world.folder), **more}, inputs.CALLED)


_REPLIES: Sequence[JsonObject] = (
    _said_yes("once"),
    {"result": {"action": "decline"}},
    {"result": {"action": "cancel"}},
    _said_yes("this session"),
    {"result": {"action": "accept", "content": {"colour": "red"}}},
    {"error": {"code": -1, "message": "no"}},
)


def _calls(world: World, recording: Recording) -> None:
    """Ask all there is, once without a person to ask and once with; the second start knows the catalog."""
    config = _calls_world(world, {"echo": inputs.ECHO})
    for label, client in (("first", Client()), ("asked", Client(capabilities=FORM, replies=[*_REPLIES]))):
        with world.served(config) as conversation:
            conversation.opened(client)
            conversation.called("tool_search", {"query": "anything"})
            _ask_all(conversation, label, recording)
            for line in LINES:
                conversation.write(line)
            _keep_said(recording, f"{label}, after bad lines", conversation.said("ping", {}))
            recording.keep("calls", f"{label}, end", conversation.end())
    keep_events(world, "calls", recording)
    for file in sorted(world.folder.rglob("*.db")):
        recording.keep("databases", file.name, schema_of(file))


def _modern_calls(world: World, recording: Recording) -> None:
    """Ask the same without a session, where each request says who asks."""
    config = _calls_world(world, {"echo": inputs.ECHO})
    client = Client(era=MODERN, capabilities=FORM, replies=[*_REPLIES])
    with world.served(config, *_STABLE) as conversation:
        conversation.opened(client)
        conversation.called("tool_search", {"query": "anything"})
        _ask_all(conversation, "modern", recording)
        client.era = "1999-01-01"
        _keep_said(recording, "modern, an unknown version", conversation.said("tools/list", {}))
        recording.keep("calls", "modern, end", conversation.end())
    keep_events(world, "calls, modern", recording)


def _failing_calls(world: World, recording: Recording) -> None:
    """Ask for tools of servers that do not start; in few words, because they are tried again 15 s later."""
    config = _calls_world(world, _FAILING)
    with world.served(config) as conversation:
        conversation.opened(Client())
        conversation.called("tool_search", {"query": "anything"})
        for arguments in ({"query": "mail"}, {"query": "mail", "server": "broken"}):
            _keep_said(recording, f"failing, {arguments}", conversation.called("tool_search", arguments))
        for name in ("broken__tool", "gone__tool"):
            called = conversation.called("tool_call", {"name": name, "arguments": {}})
            _keep_said(recording, f"failing, tool_call {name}", called)
            _keep_said(recording, f"failing, {name}", conversation.called(name, {}))
        once = dict.fromkeys(conversation.end().splitlines())  # each failure is said again when it is tried again
        recording.keep("calls", "failing, end", "\n".join(once))
    keep_events(world, "calls, failing", recording)


def _ask_all(conversation: Conversation, label: str, recording: Recording) -> None:
    for number, (name, arguments) in enumerate(CALLS):
        question = f"{label}, call {number}: {name} {json.dumps(arguments)[:90]}"
        _keep_said(recording, question, conversation.called(name, arguments))
    for number, (method, params) in enumerate(REQUESTS):
        question = f"{label}, request {number}: {method} {json.dumps(params)[:90]}"
        _keep_said(recording, question, conversation.said(method, params))
    progress = conversation.called("issues__progress_report", {"text": "x"}, _meta={"progressToken": "p"})
    _keep_said(recording, f"{label}, progress", progress)
    _read_all(conversation, label, recording)
    _keep_said(recording, f"{label}, tools/list at the end", conversation.said("tools/list", {}))


def _read_all(conversation: Conversation, label: str, recording: Recording) -> None:
    """Call what answers with a long text, and read on as the answer says."""
    said = conversation.called("issues__long_text", {"lines": 200})
    for page in range(10):
        _keep_said(recording, f"{label}, long result, page {page}", said)
        following = _FOLLOWING.search("".join(block.get("text", "") for block in result_of(said).get("content", ())))
        if following is None:
            break
        said = conversation.called(following[1], json.loads(following[2]))


def _keep_said(recording: Recording, question: str, said: str) -> None:
    recording.keep("calls", question, normalised(said, ((_RANDOM, r"\1<random>"),)))


# -- HTTP ----------------------------------------------------------------------------------------


def _http(world: World, recording: Recording) -> None:
    """Ask over HTTP, with and without a token, with a session and without."""
    tokens = [{"token": f"a-long-token-of-{name}-0123456789", "subject": name} for name in ("ann", "bob")]
    section = {**inputs.CALLED, "http": {"tokens": tokens, "path": "/mcp"}}
    inputs.write_skills(world.project / ".agents" / "skills")
    config = configured(world, inputs.write_servers(world.folder), section)
    world.command("skills", "list", "--config", str(config))
    served = HttpServed(world, config, "--listing", "auto")
    for number, (method, path, body, headers) in enumerate(_http_requests(tokens[0]["token"])):
        said = served.asked(method, path, body, headers)
        recording.keep("http", f"{number}: {method} {path} {body[:120]} {sorted(headers)}", said)
    recording.keep("http", "end", served.end())


def _http_requests(token: str) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yield requests: refused ones, those of a session until it ends, and those that need none."""
    allowed = {"authorization": f"Bearer {token}"}
    about = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": Client().info}
    ping = _line("ping", {})
    yield "POST", "/mcp", _line("initialize", about), {}
    yield "POST", "/mcp", _line("initialize", about), {"authorization": "Bearer wrong"}
    yield "POST", "/other", _line("initialize", about), allowed
    yield "POST", "/mcp", _line("initialize", about), {**allowed, "host": "elsewhere.example"}
    yield "POST", "/mcp", _line("initialize", about), {**allowed, "origin": "https://elsewhere.example"}
    yield "POST", "/mcp", "{", allowed
    yield "POST", "/mcp", ping, {**allowed, "accept": "text/html"}
    yield "POST", "/mcp", _line("initialize", about), allowed
    versioned = {**allowed, "mcp-protocol-version": LEGACY}
    yield "POST", "/mcp", json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}), versioned
    search = {"name": "tool_search", "arguments": {"query": "create an issue"}}
    call = {"name": "tool_call", "arguments": {"name": "issues__create_issue", "arguments": CREATED}}
    for method, params in (("tools/call", search), ("tools/call", call), ("tools/list", {}), ("resources/list", {})):
        yield "POST", "/mcp", _line(method, params), versioned
    yield "POST", "/mcp", ping, {**versioned, "mcp-session-id": "another"}
    yield "DELETE", "/mcp", "", versioned
    yield "POST", "/mcp", ping, versioned
    envelope = {"_meta": Client(era=MODERN).envelope}
    modern = {**allowed, "mcp-protocol-version": MODERN, "mcp-session-id": ""}
    for method, params in (("server/discover", {}), ("tools/list", {}), ("tools/call", search)):
        headers = {**modern, "mcp-method": method, **({"mcp-name": params["name"]} if "name" in params else {})}
        yield "POST", "/mcp", _line(method, {**params, **envelope}), headers
    yield "GET", "/mcp", "", modern
    yield "PUT", "/mcp", "", allowed


def _line(method: str, params: JsonObject) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


# -- an upgrade ----------------------------------------------------------------------------------


def _upgrade(kept: Path, world: World, recording: Recording) -> None:
    """Start on files that the first of the two checkouts has left: its indexes, greetings and decisions."""
    config = world.folder / "toolcrib.json"
    if kept.exists():
        shutil.copytree(kept, world.folder, dirs_exist_ok=True)
    else:
        _calls_world(world, {})
        replies = [_said_yes("always")]
        for client in (Client(capabilities=FORM, replies=replies), Client()):
            with world.served(config) as conversation:
                conversation.opened(client)
                conversation.called("tool_search", {"query": "create an issue"})
                conversation.called("mail__send_mail", SENT)
                conversation.called("skill_get", {"names": ["send-report"]})
                conversation.said("tools/list", {})
        world.command("skills", "disable", "triage-issues", "--config", str(config))
        shutil.copytree(world.folder, kept)
    (world.folder / "cache" / "events.jsonl").write_text("", encoding="utf-8")
    for arguments in (("status", "--json"), ("allow", "--json"), ("skills", "list", "--hidden", "--json")):
        recording.keep("upgrade", " ".join(arguments), world.command(*arguments, "--config", str(config)))
    with world.served(config) as conversation:
        said = [conversation.opened(Client()), conversation.said("tools/list", {})]
        asked = (("mail__send_mail", SENT), ("tool_search", {"query": "send"}), ("skill_search", {"query": "send"}))
        said += [conversation.called(*each) for each in asked]
        for number, each in enumerate(said):
            recording.keep("upgrade", f"served, {number}", each)
    keep_events(world, "upgrade", recording, "upgrade")
    for file in sorted(world.folder.rglob("*.db")):
        recording.keep("upgrade", file.name, schema_of(file))


# -- events --------------------------------------------------------------------------------------


_ONCE = "skill_directory_rendered"
"""A kind of event of which a session has one or none, about more or fewer skills."""
_BY_CHANCE = (("starting", "it had not answered 5 s after it was started"), ("sleeping", ""))
"""States of servers that are told or not, depending on how busy the machine is; the second when a process ends."""


def keep_events(world: World, label: str, recording: Recording, aspect: str = "events") -> None:
    """Keep the events of a world's sessions: in order for each session, each server and each other kind.

    What goes on at the same time has no order, so it is not compared between them. Nor is how often a server that fails
    is tried.
    """
    file = world.folder / "cache" / "events.jsonl"
    lines: dict[str, list[str]] = {}
    for line in normalised(file.read_text(encoding="utf-8") if file.exists() else "").splitlines():
        event = json.loads(line)
        if event["event"] == _ONCE:
            lines[_ONCE] = [re.sub(r'"count":\d+', '"count":"<count>"', line)]
        elif (event.get("state"), event.get("reason")) not in _BY_CHANCE:
            stream = event["session"] or f"{event['event']} {event.get('server', '')}".strip()
            lines.setdefault(stream, []).append(line)
    for stream, said in lines.items():
        has_failed = any('"state":"failed"' in line for line in said)
        recording.keep(aspect, f"{label}: {stream}", "\n".join(dict.fromkeys(said) if has_failed else said))


# -- the command line ----------------------------------------------------------------------------


def _cli_jobs() -> dict[str, Job]:
    return {
        "cli, help": _help,
        "cli, configs": _configs,
        "cli, commands": _commands,
        "cli, servers that fail": _failing,
        "cli, clients": _clients,
        "cli, clients' files": _client_files,
    }


_COMMANDS = re.compile(r"^Commands:\n((?: .*\n?)+)", re.MULTILINE)
_COMMAND = re.compile(r"^  ([a-z][\w-]*)", re.MULTILINE)


def _help(world: World, recording: Recording) -> None:
    """Keep the help of every command, found by reading the help of the one above it."""
    recording.keep("cli", "toolcrib -h", world.command("-h"))
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        found = dict(zip(waiting, world.commands(*((*words, "--help") for words in waiting)), strict=True))
        waiting = []
        for words, said in found.items():
            recording.keep("cli", " ".join(("toolcrib", *words, "--help")), said)
            if listed := _COMMANDS.search(said):
                waiting += [(*words, name) for name in _COMMAND.findall(listed[1])]


def _keep_command(world: World, recording: Recording, label: str, *arguments: str, given: str = "") -> None:
    """Run a command in a process of its own."""
    recording.keep("cli", _asked(world, label, arguments), world.command(*arguments, given=given))


def _keep_commands(world: World, recording: Recording, label: str, several: Sequence[Sequence[str]]) -> None:
    """Run commands in one process, which is faster."""
    for arguments, said in zip(several, world.commands(*several), strict=True):
        recording.keep("cli", _asked(world, label, arguments), said)


def _asked(world: World, label: str, arguments: Sequence[str]) -> str:
    return f"{label}: toolcrib {' '.join(arguments)}".replace(str(world.folder), "")


def _configs(world: World, recording: Recording) -> None:
    for name, text in inputs.BROKEN_CONFIGS.items():
        config = ("--config", str(world.wrote(name, text)))
        asked = (("config", "check"), ("config", "show"), ("status",))
        several = [(*each, *more, *config) for each in asked for more in ((), ("--json",))]
        _keep_commands(world, recording, "broken", several)
    for name in ("open.json", "slips.json", "unsafe.json", "codex.toml"):
        for command in (("serve",), ("doctor", "--json")):
            _keep_command(world, recording, "broken", *command, "--config", str(world.folder / name))
    kinds = ("check", "show", "path")
    several = [("config", kind, *more) for more in ((), ("--json",)) for kind in kinds]
    several.append(("config", "check", "--config", str(world.folder / "none.json")))
    _keep_commands(world, recording, "no config", several)


def _commands(world: World, recording: Recording) -> None:
    config = str(_calls_world(world, {}))
    named = ("--config", config)
    _keep_command(world, recording, "before", "skills", "list", *named)  # reads them, which others wait for in vain
    _keep_commands(world, recording, "before", [(*each, *named) for each in _UNLISTED])
    for arguments in _STARTING:
        _keep_command(world, recording, "starting", *arguments, *named)
    for more in ((), ("--json",)):
        _keep_commands(world, recording, "after", [(*each, *more, *named) for each in _LISTED])
    _keep_commands(world, recording, "changing", [(*each, *named) for each in _CHANGING])
    recording.keep("cli", "the config after all changes", Path(config).read_text(encoding="utf-8"))
    for arguments, typed in _OTHERS:
        _keep_command(world, recording, "others", *arguments, given=typed)


def _failing(world: World, recording: Recording) -> None:
    config = str(_calls_world(world, _FAILING))
    for arguments in (
        ("skills", "list"),
        ("status", "--json"),
        ("tools", "list", "--server", "broken"),
        ("index", "refresh"),
        ("doctor",),
        ("doctor", "--json"),
        ("status",),
        ("status", "--json"),
        ("get", "broken"),
        ("get", "gone", "--json"),
        ("logs", "gone"),
        ("search", "cannot"),
    ):
        _keep_command(world, recording, "failing", *arguments, "--config", config)


_UNLISTED: Sequence[tuple[str, ...]] = (
    ("config", "check"),
    ("search", "create an issue"),
    ("status",),
    ("tokens",),
    ("events",),
)
_LISTED: Sequence[tuple[str, ...]] = (
    ("config", "check"),
    ("config", "show"),
    ("config", "path"),
    ("search", "create an issue"),
    ("search", "--server", "isues", "x"),
    ("skills", "list"),
    ("skills", "show", "triage-issues"),
    ("skills", "search", "sort issues"),
    ("skills", "relevant", "sort new issues"),
    ("status",),
    ("tokens",),
    ("allow",),
    ("index", "vocabulary"),
    ("index", "semantic"),
    ("get", "issues"),
    ("get", "isues"),
    ("logs", "issues"),
    ("events", "--session", "command-line"),
    ("search", "--type", "regex", "mail.*"),
    ("search", "--type", "exact", "send_mail"),
    ("search", "--schema", "--limit", "1", "send mail"),
    ("skills", "show", "triage-issues", "--raw"),
    ("skills", "show", "pack.core.bisect-a-regression", "--max-tokens", "300"),
    ("tools", "show", "issues__shown"),
    ("tools", "show", "issues__creat_issue"),
)
_STARTING: Sequence[tuple[str, ...]] = (
    ("index", "refresh"),
    ("tools", "list"),
    ("tools", "list", "--json"),
    ("tools", "list", "--server", "mail"),
    ("tools", "list", "--mode", "always"),
    ("tools", "show", "issues__create_issue"),
    ("tools", "show", "issues__create_issue", "--json"),
    ("tools", "show", "issues__creat_issue"),
    ("call", "issues__create_issue", '{"repo": "a/b", "title": "x"}'),
    ("call", "issues__create_issue", '{"repo": "a/b", "title": "x"}', "--json"),
    ("call", "issues__create_issue", "{}"),
    ("call", "issues__create_issue", "{"),
    ("call", "issues__fail_always", "--json"),
    ("call", "mail__send_mail", '{"to": "a", "subject": "b"}'),
    ("call", "issues__delete_issue", '{"number": 1}'),
    ("lint",),
    ("lint", "--json"),
    ("lint", "--level", "info", "--server", "mail"),
)
_CHANGING: Sequence[tuple[str, ...]] = (
    ("allow", "mail__send_mail"),
    ("call", "mail__send_mail", '{"to": "a", "subject": "b"}'),
    ("allow", "--json"),
    ("allow", "mail__send_mail", "--revoke"),
    ("allow", "nothing"),
    ("skills", "disable", "send-report"),
    ("skills", "list", "--hidden"),
    ("skills", "enable", "send-report"),
    ("skills", "disable", "nothing"),
    ("add", "more", "--no-try", "--env", "A=b", "--", "python3", "-V"),
    ("add", "wiki", "--no-try", "--url", "https://wiki.example/mcp", "--header", "X-Key: ${WIKI}"),
    ("add", "more", "--no-try", "--", "python3"),
    ("disable", "more"),
    ("enable", "more"),
    ("disable", "nothing"),
    ("remove", "wiki"),
    ("remove", "nothing"),
    ("login", "issues"),
    ("logout", "issues"),
    ("index", "vocabulary", "--forget", "--all"),
    ("index", "clear"),
    ("status", "--json"),
    ("uninstall", "--dry-run"),
)
_OTHERS: Sequence[tuple[tuple[str, ...], str]] = (
    (("--version",), ""),
    ((), ""),
    (("nothing",), ""),
    (("serch", "x"), ""),
    (("search",), ""),
    (("search", "--json"), ""),
    (("search", "x", "--limit", "0"), ""),
    (("--show-completion", "bash"), ""),
    (("secret", "set", "wiki"), "sk-something\n"),
    (("secret", "list"), ""),
    (("secret", "list", "--json"), ""),
    (("secret", "remove", "wiki"), ""),
    (("secret", "remove", "wiki"), ""),
    (("skills", "check", ".agents/skills"), ""),
    (("skills", "check", ".agents/skills/broken", "--json"), ""),
    (("top",), ""),
    (("top", "--json"), ""),
)


def _clients(world: World, recording: Recording) -> None:
    """Keep what init, connect and disconnect say and write in a home with the files of every client."""
    for client, path, text, beside in inputs.client_files():
        file = world.folder / path
        if client != "other" and path.startswith("home/") and not file.exists():
            world.wrote(path, _placed(text, world))
            for name, content in beside.items():
                world.wrote(name, _placed(content, world))
    _keep_command(world, recording, "clients", "init")
    several = [("init", "--json"), ("init", "--project", "--json"), ("init", "--from", "cursr")]
    _keep_commands(world, recording, "clients", several)
    _keep_command(world, recording, "clients", "init", "--yes", "--env")
    _keep_command(world, recording, "clients, again", "init", "--yes", "--env")
    _keep_files(world, recording, "after init")
    _keep_commands(world, recording, "clients", [("connect", client) for client in (*_CONNECTED, "nothing")])
    for client in _CONNECTED:
        _keep_command(world, recording, "clients", "connect", client, "--replace", "--yes")
    _keep_files(world, recording, "after connect")
    several = [("status", "--json"), ("uninstall", "--dry-run", "--json")]
    several += [("disconnect", client, "--yes") for client in _CONNECTED]
    _keep_commands(world, recording, "clients", several)
    _keep_files(world, recording, "after disconnect")


_CONNECTED = ("claude-code", "cursor", "vscode", "codex", "goose", "zed", "opencode")


def _client_files(world: World, recording: Recording) -> None:
    """Keep what import says of each file, each in a folder of its own."""
    several: list[tuple[str, ...]] = []
    for number, (client, path, text, beside) in enumerate(inputs.client_files()):
        folder = world.folder / "files" / str(number)
        for name, content in {**beside, path: text}.items():
            world.wrote(str(folder / name), _placed(content, world))
        more = () if client == "other" else ("--from", client)
        several.append(("import", str(folder / path), *more, "--json"))
    _keep_commands(world, recording, "files", several)


def _placed(text: str, world: World) -> str:
    return text.replace("HOME", str(world.home)).replace("PROJECT", str(world.project))


def _keep_files(world: World, recording: Recording, label: str) -> None:
    for file in sorted(world.home.rglob("*")):
        if file.is_file() and file.suffix in {".json", ".jsonc", ".toml", ".yaml", ".env"}:
            name = str(file.relative_to(world.home))
            if "connections" not in name:
                recording.keep("cli", f"{label}: {name}", file.read_text(encoding="utf-8"))


# -- documents -----------------------------------------------------------------------------------

_WRITTEN = re.compile(r"<!-- begin, written by (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)


def _documents(world: World, recording: Recording) -> None:
    """Keep the tables and schemas that the checkout's own script writes anew into a copy of its documents."""
    script = world.checkout / "scripts" / "reference_tables.py"
    recording.keep("documents", "reference_tables.py", world.python(str(script)).partition("--- stderr")[0])
    docs = world.checkout / "docs"
    for page in sorted(docs.glob("*.md")):
        for number, (_, table) in enumerate(_WRITTEN.findall(page.read_text(encoding="utf-8"))):
            recording.keep("documents", f"{page.name}, table {number}", table)
    for schema in sorted(docs.glob("schemas/*.json")):
        recording.keep("documents", schema.name, schema.read_text(encoding="utf-8"))
    recording.keep("documents", "config show --json", world.command("config", "show", "--json"))
