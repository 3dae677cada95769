"""The search engine of the server for definitions in memory, without a server, a loop or a file (ADR 73)."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any, Self, cast

from toolcrib.base.errors import BadRequest, StoreError, UnknownTool
from toolcrib.base.json_decoding import collector_paused
from toolcrib.base.json_values import as_object, compact
from toolcrib.base.model import Caller, JsonObject, Tool, ToolRecord
from toolcrib.catalog.gate import NameMaskers
from toolcrib.catalog.in_memory import ToolsInMemory, tool_of
from toolcrib.catalog.index import Reading
from toolcrib.catalog.ingest import Shaping, ingest
from toolcrib.catalog.snapshot import Catalog, Permitted
from toolcrib.catalog.tool_search import Briefs, Searcher, SearchRequest, refuse_blank
from toolcrib.catalog.views import CatalogView, CatalogViews
from toolcrib.config.paths import user_model_dir
from toolcrib.config.schema import LimitsSection, SemanticSection, ServerSection, ToolExamplesSection, ToolSearchSection
from toolcrib.config.settings import ServerSettings, StdioTarget
from toolcrib.library.arguments import SearchKind, list_of, path_of, search_of, text_of
from toolcrib.library.functions import FunctionTool, function_tool
from toolcrib.library.hits import PARTS, Reasons, ToolHit, confidences, tool_hit
from toolcrib.library.results import SearchResult
from toolcrib.policy.rules import Policy
from toolcrib.search.capabilities import shipped
from toolcrib.search.engine import SearchSettings
from toolcrib.search.postings import Inverted
from toolcrib.search.semantic import Semantic, static_model

ToolLike = object
"""A function, an SDK ``Tool``, or a definition as a dictionary in the form of MCP, Anthropic or OpenAI."""

_FORMAT = 1
"""The format of a saved index."""
_REFUSED_MAX = 5
_NO_TARGET = StdioTarget("", (), {}, None)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tool of an index. ``given`` is what its record was made of."""

    row: int
    record: ToolRecord
    given: object


@dataclass(frozen=True, slots=True, eq=False)
class _World:
    """Everything that searches read, for one state of an index. ``entries`` are by row."""

    state: int
    entries: Mapping[int, _Entry]
    catalog: Catalog
    permitted: Permitted
    view: CatalogView
    texts: ToolsInMemory
    searcher: Searcher


class ToolSearch:
    """Finds the right tools among many by what they do: the engine of the server alone, in memory.

    >>> def send_mail(to: str, text: str):
    ...     '''Send an e-mail to one person.'''
    >>> def read_calendar(day: str):
    ...     '''List the appointments of a day.'''
    >>> index = ToolSearch([send_mail, read_calendar])
    >>> hit = index.search("what are my meetings tomorrow?")[0]
    >>> hit.name, hit.confidence
    ('read_calendar', 'high')

    A tool is a function, an SDK ``Tool``, or a definition as a dictionary in the form of MCP, Anthropic or OpenAI.
    Ranking is the server's: by the words of names, descriptions and parameters, by the ways in which people ask for
    what a tool does, and, if the extra ``semantic`` is installed and unless ``semantic`` is false, by meaning.

    Nothing is written or started, and there is nothing to close. It may be used from several threads: a search sees the
    tools before a change or after it, and changes take turns. The first search after a change indexes what is new,
    about a millisecond for four tools; the others take a millisecond or two.
    """

    def __init__(self, tools: Iterable[ToolLike] = (), *, server: str = "", semantic: bool = True) -> None:
        """Begin with these tools; see :meth:`add`.

        Raises:
            BadRequest: one of them cannot be used.

        """
        self._changing, self._rows = Lock(), count(1)
        self._entries: dict[str, _Entry] = {}
        self._state = 0
        self._world: _World | None = None
        self._briefs = Briefs()
        self._policy, self._reading = Policy(), Reading(shipped())
        limits = LimitsSection()
        self._shaping = Shaping(
            self._policy,
            limits.model_copy(update={"tools_per_server": 1 << 30}),  # its caller has them in memory anyway
            ToolSearchSection(),
            ToolExamplesSection(enabled=False),
            lambda _schema, _args: True,
            candidates=None,
        )
        self._settings = SearchSettings(limits.regex_ms, semantic=self._semantic() if semantic else None)
        self.add(tools, server=server)

    # -- the tools -------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, in the order in which they were added; those of a server as ``server__tool``."""
        with self._changing:
            return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __repr__(self) -> str:
        return f"ToolSearch({len(self)} tools)"

    def add(self, tools: Iterable[ToolLike], *, server: str = "") -> None:
        """Add tools; one with the name of an earlier one takes its place. All of them are added, or none.

        Within one call each needs a name of its own.

        Those of a ``server`` are called ``server__tool``, and the server's name counts as one of their words. A name
        that holds anything but letters, digits, ``-`` and single ``_`` is changed: :attr:`names` has what it has
        become. Definitions are not copied: do not change them afterwards.

        Raises:
            BadRequest: one of them cannot be used; the text names each such tool, and what is wrong with it.

        >>> index = ToolSearch()
        >>> index.add([{"name": "create_issue", "description": "Open a new issue."}], server="github")
        >>> index.names
        ('github__create_issue',)

        """
        given = list_of(tools, "tools")
        text_of(server, "server")
        with collector_paused():
            definitions = [_definition(tool) for tool in given]
            _refuse_same_names(definitions)
            records = self._records(definitions, server)
        with self._changing:
            for record, _ in zip(records, given, strict=True):
                known = self._entries.get(record.public_name)
                if known and (known.record.server, known.record.name) != (record.server, record.name):
                    raise BadRequest(
                        f"Two tools would be called {record.public_name}: {record.name} of the server "
                        f"{record.server or '(none)'}, and {known.record.name} of {known.record.server or '(none)'}. "
                        "Rename one, or add it with another server=…."
                    )
            self._entries |= {
                record.public_name: _Entry(next(self._rows), record, tool)
                for record, tool in zip(records, given, strict=True)
            }
            self._state += 1

    def remove(self, *names: str) -> None:
        """Remove tools by name. All of them are removed, or none.

        Raises:
            UnknownTool: there is no tool of one of these names.
            BadRequest: one of them is no name.

        """
        with self._changing:
            for name in names:
                if text_of(name, "name") not in self._entries:
                    raise UnknownTool(name)
            for name in names:
                self._entries.pop(name, None)
            self._state += 1

    # -- searching -------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        limit: int = 8,
        server: str | None = None,
        search_type: SearchKind = "fts",
    ) -> SearchResult:
        """Return the tools that fit best, at most ``limit`` (1 to 50), best first.

        ``query`` says what the tool should do, in English or another language that people often write in; a name or its
        beginning finds the tool, and several short lines are several requests. ``server``: only its tools. With
        ``search_type="regex"`` the query is an RE2 pattern for names, descriptions and tags, with ``"exact"`` a name.

        Raises:
            BadRequest: a blank query, a wrong limit, or a pattern that cannot be used.

        >>> index = ToolSearch([{"name": "create_issue"}, {"name": "close_issue"}])
        >>> [hit.name for hit in index.search("open a new issue", limit=1)]
        ['create_issue']
        >>> index.search("close_issue")[0]
        ToolHit(close_issue(), score=1.0, confidence='high', why='the query is its name')

        """
        asked = search_of(query, search_type, limit)
        of_server = None if server is None else text_of(server, "server")
        request = SearchRequest(*asked, include_always=True, server=of_server)
        refuse_blank(request)
        world = self._current()
        found = world.searcher.search(request, world.catalog, world.permitted)
        shown = self._briefs.read(world.view, [match.document.row for match in found.matches])
        reasons = Reasons(request.query)
        known = world.searcher.known()[:1]  # the index that was searched, if words were
        hits: list[ToolHit] = []
        for match, confidence in zip(found.matches, confidences(found.confidence), strict=False):
            tool, entry = match.document, world.entries[match.document.row]
            why = reasons.of(match.match_type, self._part_with(tool, known))
            definition = entry.record.definition
            hits.append(tool_hit(tool, shown[tool.row], match.score, confidence, why, definition, entry.given))
        return SearchResult(tuple(hits), found.confidence, found.note or "")

    def _part_with(self, tool: Tool, known: Sequence[Inverted]) -> Callable[[str], str]:
        """Return what names the part of a tool that has a stem, by an index that has the tool."""
        for inverted in known:
            if (slot := inverted.slots.get(self._reading.version(tool.fingerprint))) is not None:
                return lambda stem: "" if (field := inverted.first_field(stem, slot)) is None else PARTS[field]
        return lambda _stem: ""

    def _current(self) -> _World:
        """Return what to search: that of the last change, made by whoever searches first after it."""
        world = self._world
        if world is None or world.state != self._state:
            with self._changing:
                world = self._world
                if world is None or world.state != self._state:
                    world = self._world = self._made()
        return world

    def _made(self) -> _World:
        entries = {entry.row: entry for entry in self._entries.values()}
        records = {row: entry.record for row, entry in entries.items()}
        texts = ToolsInMemory(records, self._reading, self._shaping.search_texts)
        catalog = Catalog((tool_of(row, record) for row, record in records.items()), self._state)
        permitted = catalog.permitted(self._policy.permissions(Caller()))
        views = CatalogViews(texts, NameMaskers((), ()))
        searcher = Searcher(views, self._settings)
        if self._world is not None:
            # Only what differs is indexed, and what is gone is freed with the world before.
            searcher.begin_with(self._world.searcher.known())
        return _World(self._state, entries, catalog, permitted, views.view(catalog, permitted), texts, searcher)

    def _semantic(self) -> Semantic:
        section = SemanticSection()
        model = static_model(None, user_model_dir({}, section.model))
        return Semantic(model, _Unstored(lambda: self._world), section.alpha, self._reading.capabilities)

    def _records(self, definitions: list[JsonObject], server: str) -> list[ToolRecord]:
        settings = ServerSettings(server, _NO_TARGET, ServerSection(), "")
        taken = ingest(settings, definitions, self._shaping)
        if taken.refused:
            said = [f"{each.name}: {each.reason}" for each in taken.refused[:_REFUSED_MAX]]
            more = f", and {len(taken.refused) - _REFUSED_MAX} more" if len(taken.refused) > _REFUSED_MAX else ""
            raise BadRequest(
                f"{len(taken.refused)} of {len(definitions)} tools cannot be used: {'; '.join(said)}{more}."
            )
        return list(taken.records)

    # -- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all definitions into one file, from which :meth:`load` makes an equal index.

        An existing file is replaced as a whole. Functions are saved by their definitions.

        Raises:
            StoreError: it cannot be written.

        """
        with self._changing:
            records = [entry.record for entry in self._entries.values()]
        lines = [compact({"server": record.server, "tool": record.definition}) for record in records]
        body = "".join(f"{line}\n" for line in lines).encode()
        head = {"toolcrib_index": _FORMAT, "tools": len(lines), "sha256": sha256(body).hexdigest()}
        target = Path(path_of(path))
        # Beside it, so that whoever reads the file meanwhile finds the whole old one or the whole new one.
        unfinished = target.with_name(f"{target.name}.{token_hex(4)}.part")
        try:
            try:
                unfinished.write_bytes(f"{compact(head)}\n".encode() + body)
                unfinished.replace(target)
            finally:
                unfinished.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"The index cannot be saved in {target}: {error.strerror or error}.") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, semantic: bool = True) -> Self:
        """Return the index that was saved in a file. Its hits have no ``tool``, which is in no file.

        Raises:
            StoreError: there is no such file, or it is damaged, of a newer toolcrib or none of ours; the text says what
                to do.

        """
        index = cls(semantic=semantic)
        file = Path(path_of(path))
        for server, entries in groupby(_read(file), itemgetter("server")):
            try:
                index.add((entry["tool"] for entry in entries), server=server)
            except BadRequest as error:
                raise _damaged(file, str(error)) from error
        with index._changing:
            index._entries = {name: _Entry(each.row, each.record, None) for name, each in index._entries.items()}
        return index


class _Unstored:
    """The texts that vectors are made of; the vectors are in memory, and stored nowhere."""

    def __init__(self, world: Callable[[], _World | None]) -> None:
        self._world = world

    def texts(self, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
        world = self._world()
        return world.texts.texts_to_embed(rows) if world else {}

    def vectors(self, model_id: str, keys: Iterable[str]) -> dict[str, bytes]:  # noqa: ARG002 - of a protocol
        return {}

    def missing(self, model_id: str, owner: str) -> dict[str, str]:  # noqa: ARG002 - as above
        return {}

    def add(self, model_id: str, vectors: Mapping[str, bytes]) -> None:
        pass


# -- what is given -------------------------------------------------------------------------------


def _definition(tool: Any) -> JsonObject:
    """Return a tool as ``tools/list`` has it; whether it is valid is not checked here."""
    if isinstance(tool, FunctionTool):
        return tool.definition
    if isinstance(tool, Mapping):
        return _of_mapping({**cast("Mapping[str, Any]", tool)})
    for method in ("to_mcp_tool", "model_dump"):  # FastMCP's tools, and those of the SDK
        if callable(getattr(tool, method, None)):
            found = tool.to_mcp_tool() if method == "to_mcp_tool" else tool
            return found.model_dump(mode="json", by_alias=True, exclude_none=True)
    if callable(tool):
        return function_tool(tool).definition
    raise BadRequest(
        f"{type(tool).__name__} is no tool: give a function, an SDK Tool, or a definition as a dictionary with 'name', "
        "'description' and 'inputSchema'."
    )


def _refuse_same_names(definitions: Iterable[JsonObject]) -> None:
    names = Counter(name for each in definitions if isinstance(name := each.get("name"), str))
    if same := [name for name, times in names.items() if times > 1]:
        more = f" and {len(same) - _REFUSED_MAX} more" if len(same) > _REFUSED_MAX else ""
        raise BadRequest(
            f"Several of these tools are called {', '.join(same[:_REFUSED_MAX])}{more}: within one call each needs a "
            "name of its own. A later add() replaces the tool that has the name."
        )


def _of_mapping(tool: JsonObject) -> JsonObject:
    """Return a definition in the form of MCP, given that of MCP, Anthropic (``input_schema``) or OpenAI."""
    if tool.get("type") == "function":
        tool = {**as_object(tool.get("function"))} or {key: value for key, value in tool.items() if key != "type"}
        schema = "parameters"
    else:
        schema = "input_schema"
    if "inputSchema" not in tool and schema in tool:
        tool["inputSchema"] = tool.pop(schema)
    return tool


# -- what a file has -----------------------------------------------------------------------------


def _read(path: Path) -> list[JsonObject]:
    """Return the entries of a saved index: each with its ``server`` and its ``tool``."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise StoreError(f"There is no index in {path}: ToolSearch(…).save(path) makes one.") from None
    except OSError as error:
        raise StoreError(f"The index in {path} cannot be read: {error.strerror or error}.") from error
    first, _, body = data.partition(b"\n")
    head: JsonObject = {}
    with suppress(ValueError, RecursionError):
        head = as_object(json.loads(first))
    version = head.get("toolcrib_index")
    if type(version) is not int:  # true and false are numbers to Python
        raise StoreError(f"{path} is no index of toolcrib: ToolSearch(…).save(path) makes one.")
    if version > _FORMAT:
        raise StoreError(
            f"The index in {path} was saved by a newer toolcrib (format {version}, this one reads {_FORMAT}): "
            "upgrade toolcrib, or make the index from the tools again and save it elsewhere."
        )
    if head.get("sha256") != sha256(body).hexdigest():
        raise _damaged(path, "it is not as it was saved")
    try:
        entries = [as_object(json.loads(line)) for line in body.splitlines()]
    except (ValueError, RecursionError) as error:
        raise _damaged(path, type(error).__name__) from error
    if not all(isinstance(entry.get("server"), str) and isinstance(entry.get("tool"), dict) for entry in entries):
        raise _damaged(path, "not every line is a tool")
    return entries


def _damaged(path: Path, reason: str) -> StoreError:
    return StoreError(
        f"The index in {path} is damaged: {reason.rstrip('.')}. Make it from the tools again and save it."
    )
