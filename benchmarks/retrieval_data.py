"""What retrieval is measured on: catalogs of tools or skills with queries whose right answers are known.

Knows the forms of such data, how queries are split and misspelt; never knows how anything is searched.
"""

import json
import random
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal

from toolcrib.skills.formats.agent_skill import read_agent_skill

Half = Literal["tune", "test", "all"]

UNANSWERABLE = Path(__file__).resolve().parent / "queries" / "unanswerable.json"
PLAIN = Path(__file__).resolve().parent / "queries" / "plain_requests.json"
"""Requests in a person's plain words, over the recorded servers; the README beside tells how they were written."""
HELD_OUT = PLAIN.with_name("plain_requests_held_out.json")
"""As many others, by which nothing was chosen."""
QUERIES_FILE = "queries.jsonl"
OWN = Path(__file__).resolve().parents[1] / "tests" / "retrieval"
"""The set that is kept with the tests; its README tells what it is."""
OWN_TOOLS, OWN_SKILLS = OWN / "tool_requests.json", OWN / "skill_requests.json"
FOREIGN_TOOLS, FOREIGN_SKILLS = OWN / "foreign_tool_requests.json", OWN / "foreign_skill_requests.json"

_LONG_WORD = re.compile(r"[^\W\d_]{5,}")
_TOOLS_PER_SERVER = 1000


@dataclass(frozen=True, slots=True)
class Document:
    """One tool or skill. ``definition`` is a tool's, as a server lists it; ``body`` is a skill's text."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    server: str = ""
    definition: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""

    @property
    def parameters(self) -> str:
        """The names and descriptions of its parameters, at the top level."""
        properties = (self.definition.get("inputSchema") or {}).get("properties") or {}
        described = ((name, schema.get("description", "")) for name, schema in properties.items() if schema)
        return " ".join(f"{name} {text}".strip() for name, text in described)

    @property
    def text(self) -> str:
        """All of its short text."""
        return " ".join(filter(None, (self.name, self.description, self.parameters, *self.tags)))


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody asks, and what answers it: gain by id. No gold means that nothing does.

    ``needs``: what a search has to be able to do to find it, where the set says so.
    """

    text: str
    gold: Mapping[str, float]
    needs: tuple[str, ...] = ()

    def is_in(self, half: Half) -> bool:
        """Return whether it belongs to a half of its set, by the second byte of SHA-256 of its text.

        The first byte has already parted the foreign sets from those that stay out of the project.
        """
        return half == "all" or (_digest(self.text)[1] % 2 == 0) is (half == "tune")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A catalog and queries. ``folder`` holds the skills, else these are tools. ``any_counts``: one gold is enough."""

    name: str
    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    folder: Path | None = None
    any_counts: bool = False

    def half(self, which: Half) -> "Dataset":
        """Return the queries to tune on, those to report, or all."""
        if which == "all":
            return self
        kept = (query for query in self.queries if query.is_in(which))
        return replace(self, name=f"{self.name} {which}", queries=tuple(kept))

    def first(self, number: int | None) -> "Dataset":
        """Return as many of the queries, chosen by their hash so that every part of the set is there."""
        chosen = sorted(self.queries, key=lambda query: _digest(query.text)[2:])[:number]
        return replace(self, queries=tuple(chosen))

    def misspelt(self, share: float, seed: int = 1) -> "Dataset":
        """Return it with one random edit in a share of all query words of five letters or more."""
        if not share:
            return self
        asked = (replace(query, text=misspell(query.text, share, seed)) for query in self.queries)
        return replace(self, name=f"{self.name}, misspelt", queries=tuple(asked))


def _digest(text: str) -> bytes:
    return sha256(text.lower().encode("utf-8", "surrogatepass")).digest()


def misspell(text: str, share: float, seed: int = 1) -> str:
    """Return ``text`` with one letter added, lost, replaced or swapped in a share of its longer words."""
    chance = random.Random(f"{seed}:{text}")

    def edited(found: re.Match[str]) -> str:
        return _edited(found[0], chance) if chance.random() < share else found[0]

    return _LONG_WORD.sub(edited, text)


def _edited(word: str, chance: random.Random) -> str:
    place, letter = chance.randrange(len(word)), chance.choice(string.ascii_lowercase)
    match chance.choice(("add", "lose", "replace", "swap")):
        case "add":
            return word[:place] + letter + word[place:]
        case "lose":
            return word[:place] + word[place + 1 :]
        case "replace":
            return word[:place] + letter + word[place + 1 :]
        case _:
            place = min(place, len(word) - 2)
            return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def load(path: Path) -> Dataset:
    """Return the data in a ``{tools, queries}`` file, or in a folder of skills that holds ``queries.jsonl``.

    A file called as one of the own set's is a list of requests: what they are about lies beside it.
    """
    if path.name in {OWN_TOOLS.name, FOREIGN_TOOLS.name}:
        return Dataset("own tools", tuple(_listed_tools(path.parent / "servers")), _requests(path))
    if path.name in {OWN_SKILLS.name, FOREIGN_SKILLS.name}:
        folder = path.parent / "skills"
        return Dataset("own skills", tuple(_skill_documents(folder)), _requests(path), folder)
    return _skills(path) if path.is_dir() else _tools(path)


def _requests(path: Path) -> tuple[Query, ...]:
    asked = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Query(each["text"], dict.fromkeys(each["right"], 1.0), tuple(each.get("needs", ()))) for each in asked)


def over_recorded(requests: Path, folder: Path, key: Callable[[str], str]) -> Dataset:
    """Return requests over all tools of a folder with one recorded ``tools/list`` a server.

    A right answer is ``file.tool``, the file without its suffix; ``key`` makes of it what the server is called in a
    config. One request may have the tools of several servers as right answers; a tool that is as good but not among
    them counts as wrong.
    """
    return Dataset(requests.stem, tuple(_listed_tools(folder, key)), _requests(requests))


def _listed_tools(folder: Path, key: Callable[[str], str] = str) -> Iterator[Document]:
    """Yield the tools of several servers, each in a file as it answers ``tools/list``; an id is ``file.tool``."""
    for path in sorted(folder.glob("*.json")):
        for tool in json.loads(path.read_text(encoding="utf-8"))["tools"]:
            description = tool.get("description", "")
            yield Document(f"{path.stem}.{tool['name']}", tool["name"], description, (), key(path.stem), tool)


def _tools(path: Path) -> Dataset:
    data = json.loads(path.read_text(encoding="utf-8"))
    name = data.get("name") or path.stem
    documents = tuple(
        Document(
            id=tool["id"],
            name=tool["name"],
            description=tool.get("description") or "",
            tags=tuple(tool.get("tags") or ()),
            server=tool.get("server") or name,
            definition=_definition(tool),
        )
        for tool in data["tools"]
    )
    return Dataset(name, documents, tuple(Query(query["text"], query["gold"]) for query in data["queries"]))


def _definition(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool as its server would list it; ``type: dict`` and the like are not known to JSON Schema."""
    schema = {**(tool.get("schema") or {}), "type": "object"}
    listed = {"name": tool["name"], "description": tool.get("description") or "", "inputSchema": schema}
    return {**listed, "_meta": {"tags": list(tool["tags"])}} if tool.get("tags") else listed


def _skills(folder: Path) -> Dataset:
    lines = (folder / QUERIES_FILE).read_text(encoding="utf-8").splitlines()
    asked = [json.loads(line) for line in lines if line.strip()]
    queries = tuple(Query(line["query"], dict.fromkeys(line["gold"], 1.0)) for line in asked)
    return Dataset(folder.name, tuple(_skill_documents(folder)), queries, folder, any_counts=True)


def _skill_documents(folder: Path) -> Iterator[Document]:
    for path in sorted(folder.rglob("SKILL.md")):
        text, _ = read_agent_skill(path.read_bytes(), folder_name=path.parent.name, path=path.name)
        if text is not None:
            yield Document(text.name, text.name, text.description, tuple(text.tags), body=text.body)


def unanswerable(path: Path = UNANSWERABLE) -> tuple[str, ...]:
    """Return requests that no tool and no skill serves."""
    return tuple(json.loads(path.read_text(encoding="utf-8"))["queries"])


def scaled(lists: Mapping[str, Sequence[Mapping[str, Any]]], size: int) -> dict[str, list[dict[str, Any]]]:
    """Return ``size`` tools: the lists, then copies that are alike but not the same.

    A copy has one more word in its name, a description of sentences of its own and of another tool's, and some of
    that tool's parameters. It stands in one of few servers, as in a catalog that somebody might have.
    """
    every = [(key, dict(tool)) for key, tools in lists.items() for tool in tools]
    chosen = random.Random(1).sample(every, size) if size <= len(every) else islice(_with_copies(every), size)
    grown: dict[str, list[dict[str, Any]]] = {}
    for key, tool in chosen:
        grown.setdefault(key, []).append(tool)
    return grown


def _with_copies(every: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from every
    chance = random.Random(2)
    for number in count():
        tool, other = (chance.choice(every)[1] for _ in range(2))
        yield f"more-{number // _TOOLS_PER_SERVER}", _copy(number, tool, other, chance.random)


def _copy(
    number: int, tool: Mapping[str, Any], other: Mapping[str, Any], random_share: Callable[[], float]
) -> dict[str, Any]:
    words = re.findall(r"[a-z]{4,}", other["name"].lower()) or ["other"]
    sentences = [*(tool.get("description") or "").split(". "), *(other.get("description") or "").split(". ")]
    schema = tool["inputSchema"]
    properties = {**(schema.get("properties") or {}), **(other["inputSchema"].get("properties") or {})}
    return {
        **tool,
        "name": f"{tool['name'][:30]}_{words[0][:12]}_{number}",
        "description": ". ".join(text for text in sentences if random_share() < 0.5) or sentences[0],
        "inputSchema": {
            **schema,
            "required": [],
            "properties": {key: value for key, value in properties.items() if random_share() < 0.5},
        },
    }
