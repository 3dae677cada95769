"""Tools, lists of servers and whole indexes, made for tests."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolcrib.base.model import (
    Caller,
    Example,
    Ingest,
    JsonObject,
    LoadingMode,
    Refused,
    SearchType,
    SideEffects,
    Tool,
    ToolRecord,
)
from toolcrib.base.names import public_name
from toolcrib.base.text import search_text, split_summary
from toolcrib.catalog.gate import NameMaskers
from toolcrib.catalog.index import TOOLS_SCHEMA, ToolIndex
from toolcrib.catalog.snapshot import Catalog, Permitted
from toolcrib.catalog.tool_search import Searcher, SearchRequest
from toolcrib.catalog.views import CatalogViews
from toolcrib.policy.rules import Policy, VisibilityRule
from toolcrib.search.capabilities import NO_CAPABILITIES, Capabilities
from toolcrib.search.documents import Found
from toolcrib.search.engine import SearchSettings
from toolcrib.storage.store import Store

GUEST = Caller(profile="guest")

REAL_CATALOG = Path(__file__).resolve().parents[3] / "shared" / "catalog"
"""The lists of real servers, where they are at hand; they are no part of the project."""


def record(
    server: str,
    name: str,
    description: str = "",
    *,
    mode: LoadingMode = LoadingMode.DEFERRED,
    side_effects: SideEffects | None = None,
    tags: Sequence[str] = (),
    examples: Sequence[Example] = (),
    definition: JsonObject | None = None,
) -> ToolRecord:
    """Make a record the way ingestion does, as far as the index can tell."""
    if definition is None:
        definition = {"name": name, "description": description, "inputSchema": {"type": "object"}}
    text = definition.get("description") or ""
    summary, body = split_summary(text if isinstance(text, str) else "")
    properties = (definition.get("inputSchema") or {}).get("properties") or {}
    described = [str(each.get("description", "")) for each in properties.values() if isinstance(each, dict)]
    content = [server, definition, mode, side_effects, list(tags), [dict(each.args) for each in examples]]
    return ToolRecord(
        server=server,
        name=name,
        public_name=public_name(server, name),
        loading_mode=mode,
        side_effects=side_effects,
        read_only=side_effects is SideEffects.READ,
        definition=definition,
        tags=tuple(tags),
        examples=tuple(examples),
        signature=f"{name}({', '.join(properties)})",
        summary=summary.encode("utf-8", "ignore").decode(),
        body=body.encode("utf-8", "ignore").decode(),
        name_text=search_text(name),
        params_text=search_text(" ".join(properties)),
        params_description_text=search_text(" ".join(described)),
        fingerprint=hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest(),
    )


def listing(server: str, *records: ToolRecord, refused: Sequence[Refused] = ()) -> Ingest:
    return Ingest(server, tuple(records), tuple(refused))


def numbered(server: str, count: int, text: str = "Does one thing.") -> Ingest:
    return listing(server, *(record(server, f"tool_{number}", f"{text} Number {number}.") for number in range(count)))


def real_listing(path: Path, server: str | None = None) -> Ingest:
    """Read one of the real lists."""
    content = json.loads(path.read_text(encoding="utf-8"))
    server = server or path.stem.replace(".", "-")
    records = {tool["name"]: record(server, tool["name"], definition=tool) for tool in content["tools"]}
    return listing(server, *records.values())


def replace(index: ToolIndex, ingest: Ingest, *, config: str = "c1", now: float = 1000.0, era: str | None = None):
    return index.replace(ingest, config_fingerprint=config, now=now, era=era)


@dataclass
class World:
    """An index with its searcher, and the catalog of what stands in it."""

    store: Store
    index: ToolIndex
    searcher: Searcher
    generation: int = 0

    def listed(self, *ingests: Ingest) -> Catalog:
        for ingest in ingests:
            replace(self.index, ingest)
        return self.catalog()

    def catalog(self) -> Catalog:
        self.generation += 1
        servers = {key: row.config_fingerprint for key, row in self.index.server_rows().items()}
        tools, instructions = self.index.load(servers), self.index.instructions(servers)
        return Catalog(tools, self.generation, self.index.withheld(servers), instructions=instructions)

    def search(self, query: str, kind: str = "fts", *, policy: Policy | None = None, **options: Any) -> Found[Tool]:
        catalog = self.catalog()
        request = SearchRequest(query, SearchType(kind), **options)
        return self.searcher.search(request, catalog, permitted(catalog, policy))

    def names(self, query: str, kind: str = "fts", **options: Any) -> list[str]:
        return [match.document.public_name for match in self.search(query, kind, **options).matches]


def permitted(catalog: Catalog, policy: Policy | None = None) -> Permitted:
    return catalog.permitted((policy or Policy()).permissions(Caller()))


@contextmanager
def opened(
    path: Path,
    *,
    fts: Literal["auto", "off"] = "auto",
    preferred_namespaces: Sequence[str] = (),
    capabilities: Capabilities = NO_CAPABILITIES,
    **options: Any,
) -> Iterator[World]:
    with Store(path, TOOLS_SCHEMA, fts=fts) as store:
        index = ToolIndex(store, capabilities)
        yield World(
            store,
            index,
            Searcher(CatalogViews(index, NameMaskers((), ())), SearchSettings(**options), preferred_namespaces),
        )


def guests_without(*globs: str) -> Policy:
    """Make a policy that keeps tools from guests only, so that they are indexed all the same."""
    return Policy(rules=[VisibilityRule({"profile": ("guest",)}, deny=globs)])


def names(result: Found[Tool]) -> list[str]:
    return [match.document.public_name for match in result.matches]


def scores(result: Found[Tool]) -> list[float]:
    return [match.score for match in result.matches]


@contextmanager
def watched(path: Path) -> Iterator[Callable[[], bool]]:
    """Give a function that tells whether anything has been written since it was last asked."""
    with closing(sqlite3.connect(path)) as connection:
        version = "PRAGMA data_version"
        versions = [connection.execute(version).fetchone()]

        def written() -> bool:
            versions.append(connection.execute(version).fetchone())
            return versions[-1] != versions[-2]

        yield written


ISSUES = listing(
    "github",
    record("github", "list_issues", "Lists issues of a repository. Filter by label.", tags=["vcs"]),
    record("github", "create_issue", "Opens a new issue in a repository."),
    record("github", "merge_pull_request", "Merges a pull request of a repository."),
    record("github", "search_code", "Finds code in all repositories."),
)
