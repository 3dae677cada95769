"""Converts one downstream's raw ``tools/list`` into records for the index; a bad tool does not affect the others."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import chain, islice
from typing import Any

from toolcrib.base.json_values import as_list, as_object
from toolcrib.base.model import Example, Ingest, JsonObject, LoadingMode, Refused, SideEffects, ToolRecord
from toolcrib.base.names import joined_name, name_digest, public_name, qualified_spellings, tool_matcher
from toolcrib.base.text import SearchTexts, glob_matcher, one_line, truncate
from toolcrib.catalog.definitions import (
    LISTED_AGAIN,
    TEXT_MAX,
    DefinitionError,
    Fits,
    Path,
    canonical_json,
    collect,
    encodable,
    listable,
    overridden,
    prose_of,
    refuse_joiners,
    refuse_unseen,
    said,
    sanitized,
    sharing,
    texts_in,
    texts_in_value,
    tool_name,
    values_in,
)
from toolcrib.catalog.index import EXAMPLES, ROW_FORMAT
from toolcrib.catalog.name_detection import Candidates, may_name_a_tool
from toolcrib.catalog.parameters import Parameter, declares, parameters, resolve, signature
from toolcrib.config.schema import LimitsSection, ToolExamplesSection, ToolSearchSection, ToolSection
from toolcrib.config.settings import ServerSettings, Settings, scoped_globs
from toolcrib.policy.rules import Policy, policy_of

TAGS_MAX = 20
"""Maximum number of tags of a tool."""

TAG_MAX = 64
"""Maximum length of a tag in characters."""

_HASHED_AT_ONCE = 2047
"""Bytes hashed while holding the interpreter lock: hashlib releases it from 2,048 bytes on."""
_SHOWN_NAME_MAX = 80
_PARAMETERS_MAX = 500
_PARAMETER_DEPTH = 2
_VALUES_MAX = 30


@dataclass(frozen=True, slots=True)
class Shaping:
    """The parts of the config that shape every server's tools; ``fits`` checks their examples.

    ``scoped`` are globs of the tools that are only available through skills. ``search_texts`` and ``candidates`` are
    caches shared by all lists: most words of a tool occur in others too. ``candidates`` is None where no tool is ever
    denied: then no name has to be left out of texts, and looking for names takes a third of the time.
    """

    policy: Policy
    limits: LimitsSection
    tool_search: ToolSearchSection
    tool_examples: ToolExamplesSection
    fits: Fits
    scoped: tuple[str, ...] = ()
    search_texts: SearchTexts = field(default_factory=SearchTexts)
    candidates: Candidates | None = field(default_factory=Candidates)

    @classmethod
    def from_settings(cls, settings: Settings, fits: Fits) -> "Shaping":
        """Create it from all settings."""
        section = settings.toolcrib
        policy = policy_of(section.policy)
        return cls(policy, section.limits, section.tool_search, section.tool_examples, fits, scoped_globs(section))


_EXAMPLES = re.compile(
    r"[(\[]\s*(?:e\.?\s?g\.?|ex\.?:|examples?:|for example|for instance|such as|like)\b[^()\[\]]*[)\]]"
    r"|\b(?:e\.g\.|examples?:|for example|for instance|such as)[,:]?\s[^.;]*",
    re.IGNORECASE,
)
"""An example in a description of a parameter, in parentheses or up to the end of its sentence."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A listed tool that the policy permits."""

    name: str
    public_name: str
    raw: JsonObject
    override: ToolSection | None


@dataclass(frozen=True, slots=True)
class _Denied:
    """A tool that nobody may use. ``withheld`` are those of its names that no policy glob contains."""

    name: str
    withheld: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A tool that can be offered. ``canonical`` is the JSON of its definition that is hashed, ``texts`` are its texts.

    ``declared`` are its parameters; ``parameters`` are names and descriptions, including nested ones. ``other_name`` is
    the one that the config gives it.
    """

    name: str
    public_name: str
    definition: JsonObject
    canonical: str
    texts: Sequence[tuple[Path, str]]
    declared: Sequence[Parameter]
    parameters: Sequence[tuple[str, str]]
    other_name: str = ""


def ingest(server: ServerSettings, raw_tools: Sequence[Any], shaping: Shaping, instructions: str = "") -> Ingest:
    """Return the records of all tools in a downstream's list, and the tools that cannot be offered.

    ``instructions`` is what the server tells a model of itself.

    A tool that the policy denies to everyone is in neither. If no policy glob contains its name, a digest of it is
    returned, so that it is recognised in the texts of other tools. Never raises, whatever JSON the items are.
    """
    limit = shaping.limits.tools_per_server
    scanned = list(_scan(server, raw_tools, shaping))
    items = (item for item in scanned if not isinstance(item, _Denied))
    admitted = _admit(items, limit, shaping.limits.definition_max_bytes)
    rules = _Rules(server, shaping)
    denied = [item for item in scanned if isinstance(item, _Denied)]
    return Ingest(
        server=server.key,
        records=tuple(rules.record(draft) for draft in admitted.drafts),
        refused=admitted.refused,
        withheld=_digests((name for item in denied for name in item.withheld), 2 * limit),
        denied=_digests((item.name for item in denied), limit),
        instructions=one_line(instructions[:TEXT_MAX]),
        cut=admitted.cut,
    )


def _scan(entry: ServerSettings, raw_tools: Sequence[Any], shaping: Shaping) -> Iterator[_Found | _Denied | Refused]:
    """Yield each permitted tool, or why an item is invalid, and the names of denied ones."""
    server, overrides = entry.key, entry.options.tools
    for position, item in enumerate(raw_tools, 1):
        try:
            name = tool_name(item)
        except DefinitionError as error:
            yield Refused(f"#{position}", str(error))
            continue
        override = overrides.get(name)
        shown = override.name if override and override.name else name
        # Tools of a program may be of no server: they have their own names, and no client sees those.
        public = public_name(server, shown, shaping.limits.name_max) if server else shown
        is_hidden = override is not None and override.hide
        if not is_hidden and shaping.policy.anyone.permits(server, name, public):
            yield _Found(name, public, item, override)
            continue
        # Qualified by its server, a denied name is recognised by the policy alone.
        spellings = {name, public} - {f"{server}__{name}"}
        withheld = [each for each in sorted(spellings) if not shaping.policy.anyone.names_denied(each)]
        # However its words are joined: a glob with wildcards tells only how the name itself is written.
        joined = "" if shaping.policy.anyone.names_denied_exactly(name) else joined_name(name)
        yield _Denied(name, (*withheld, joined) if joined else tuple(withheld))


def _digests(names: Iterable[str], limit: int) -> tuple[str, ...]:
    return tuple(islice(map(name_digest, dict.fromkeys(names)), limit))


@dataclass(frozen=True, slots=True)
class _Admitted:
    """What is taken of a list. ``cut`` says why there is more."""

    drafts: tuple[_Draft, ...]
    refused: tuple[Refused, ...]
    cut: str


def _admit(items: Iterable[_Found | Refused], limit: int, max_bytes: int) -> _Admitted:
    """Return the tools that can be offered, each once, and with a public name of their own; and the refused ones."""
    refused: list[Refused] = []
    drafts: dict[str, _Draft] = {}
    cut = ""
    for item in items:
        if len(drafts) + len(refused) >= limit:
            cut = f"limits.tools_per_server is {limit}"
            break
        if isinstance(item, Refused):
            refused.append(item)
            continue
        try:
            draft = _draft(item, max_bytes)
        except DefinitionError as error:
            refused.append(_refused(item.name, str(error)))
            continue
        if drafts.setdefault(draft.name, draft).canonical != draft.canonical:
            refused.append(_refused(draft.name, LISTED_AGAIN))
    # Tools that share a public name are not offered: the target of a call could change with each list.
    times = Counter(draft.public_name for draft in drafts.values())
    clashing = [draft for draft in drafts.values() if times[draft.public_name] > 1]
    refused += [_refused(draft.name, sharing(draft.public_name)) for draft in clashing]
    return _Admitted(tuple(each for each in drafts.values() if times[each.public_name] == 1), tuple(refused), cut)


def _refused(name: str, reason: str) -> Refused:
    return Refused(truncate(one_line(name), _SHOWN_NAME_MAX), reason)


def _draft(tool: _Found, max_bytes: int) -> _Draft:
    listed, canonical = listable(tool.raw, max_bytes)
    if tool.override:
        listed, canonical = encodable(overridden(listed, tool.override), max_bytes)
    refuse_unseen(tool.name)
    refuse_joiners(tool.name)
    definition = sanitized(listed, canonical)
    if definition is not listed:
        canonical = canonical_json(definition)
    texts = texts_in(definition)
    schema = as_object(definition["inputSchema"])
    declared = list(parameters(schema, schema))
    described = list(islice(_described(declared, schema, _PARAMETER_DEPTH), _PARAMETERS_MAX))
    other_name = (tool.override and tool.override.name) or ""
    return _Draft(tool.name, tool.public_name, definition, canonical, texts, declared, described, other_name)


def _described(every: Iterable[Parameter], root: JsonObject, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the name of each parameter with its description and values, including those inside objects and lists."""
    for parameter in every:
        declared, item = parameter.schema, parameter.schema.get("items")
        values = as_list(declared.get("enum")) or as_list(as_object(item).get("enum"))
        told = [declared.get("description"), *values[:_VALUES_MAX]]
        yield parameter.name, " ".join([text for text in told if isinstance(text, str)])
        if depth > 1:
            inside = resolve(item, root) if item else declared
            if declares(inside):
                yield from _described(parameters(inside, root), root, depth - 1)


class _Rules:
    """The config's settings for the tools of one server."""

    def __init__(self, server: ServerSettings, shaping: Shaping) -> None:
        options, search = server.options, shaping.tool_search
        self._server = server.key
        self._options = options
        self._examples, self._fits = shaping.tool_examples, shaping.fits
        self._search_text, self._candidates = shaping.search_texts.compute, shaping.candidates
        self._always_everywhere = glob_matcher(search.always_loaded_patterns)
        self._scoped = tool_matcher(shaping.scoped)
        self._always = glob_matcher(options.always_loaded_tools)
        self._deferred = None if options.deferred_tools is None else glob_matcher(options.deferred_tools)
        self._default_mode = options.default_loading_mode or search.default_loading_mode
        self._side_effects = [(glob_matcher([glob]), effect) for glob, effect in options.side_effects.items()]
        self._tags = [(glob_matcher([glob]), tags) for glob, tags in options.tags.items()]

    def record(self, draft: _Draft) -> ToolRecord:
        """Return the record of one tool, which depends on no other tool."""
        definition = draft.definition
        hints = as_object(definition.get("annotations"))
        summary, body = said(definition)
        descriptions = [description for _, description in draft.parameters]
        facts = _Facts(
            loading_mode=self._loading_mode(draft),
            side_effects=self._side_effects_of(draft.name, hints),
            tags=self._tags_of(draft.name, as_object(definition.get("_meta"))),
            examples=collect(draft.name, definition, self._options, self._examples, self._fits),
        )
        return ToolRecord(
            server=self._server,
            name=draft.name,
            public_name=draft.public_name,
            loading_mode=facts.loading_mode,
            side_effects=facts.side_effects,
            read_only=hints.get("readOnlyHint") is True,
            definition=definition,
            tags=facts.tags,
            examples=facts.examples,
            signature=signature(draft.public_name, definition["inputSchema"], declared=draft.declared),
            summary=summary,
            body=body,
            name_text=self._search_text(f"{draft.other_name} {draft.name}".lstrip()),
            params_text=self._joined(dict.fromkeys(name for name, _ in draft.parameters)),
            params_description_text=self._told(descriptions),
            fingerprint=_fingerprint(self._server, draft, facts),
            mentions=self._mentions(draft, facts, summary, descriptions),
        )

    def _mentions(
        self, draft: _Draft, facts: "_Facts", summary: str, descriptions: Sequence[str]
    ) -> dict[str, tuple[str, ...]]:
        """Return possible tool names, by column; ``descriptions`` are the searched ones of parameters."""
        if self._candidates is None:
            return {}
        among = self._candidates.among
        key, prose = prose_of(draft.definition)
        # The summary and the rest are searched as separate columns, and each candidate belongs to one of them.
        summary_end = prose.find(summary) + len(summary)
        in_summary, in_body, beyond = self._candidates.parted(prose, summary_end, min(TEXT_MAX, len(prose)))
        searched = {
            "summary_text": in_summary,
            "body_text": in_body,
            "params_description_text": among(descriptions),
            "tags_text": among(facts.tags),
        }
        examples = texts_in_value([[each.description, dict(each.args)] for each in facts.examples])
        # Texts examined above are skipped.
        seen = set(descriptions)
        others = [text for path, text in chain(draft.texts, examples) if path != (key,) and text not in seen]
        named = {f"`{value}" for value in values_in(draft.definition) if may_name_a_tool(value)}
        read = {*beyond, *among(others), *named}
        rest = read.difference(*searched.values())
        return {column: tuple(names) for column, names in {**searched, "": sorted(rest)}.items() if names}

    def _told(self, descriptions: Sequence[str]) -> str:
        """Return the words of descriptions of parameters, and behind them those of the examples in them."""
        examples = [found[0] for description in descriptions for found in _EXAMPLES.finditer(description)]
        if not examples:
            return self._joined(descriptions)
        told = self._joined(_EXAMPLES.sub(" ", description) for description in descriptions)
        return f"{told}{EXAMPLES}{self._joined(examples)}"[:TEXT_MAX]

    def _joined(self, parts: Iterable[str]) -> str:
        return " ".join(map(self._search_text, parts))[:TEXT_MAX]

    def _loading_mode(self, draft: _Draft) -> LoadingMode:
        """Return the loading mode by the first applicable rule (R16 to R22, R202)."""
        spellings = qualified_spellings(self._server, draft.name, draft.public_name)
        if any(map(self._always_everywhere, spellings)):
            return LoadingMode.ALWAYS
        if self._scoped(self._server, draft.name, draft.public_name):
            return LoadingMode.SKILL
        if self._always(draft.name):
            return LoadingMode.ALWAYS
        if self._deferred is not None:
            return LoadingMode.DEFERRED if self._deferred(draft.name) else LoadingMode.ALWAYS
        return self._default_mode

    def _side_effects_of(self, name: str, hints: JsonObject) -> SideEffects | None:
        """Return the config's setting, exact names before globs, or else what the annotations hint at (R54)."""
        if name in self._options.side_effects:
            return self._options.side_effects[name]
        for matches, effect in self._side_effects:
            if matches(name):
                return effect
        if hints.get("readOnlyHint") is True:
            return SideEffects.READ
        if hints.get("openWorldHint") is True:
            return SideEffects.EXTERNAL
        # By the specification destructiveHint only has a meaning if a tool is not read-only.
        says_it_writes = isinstance(hints.get("destructiveHint"), bool) or hints.get("readOnlyHint") is False
        return SideEffects.WRITE if says_it_writes else None

    def _tags_of(self, name: str, meta: JsonObject) -> tuple[str, ...]:
        """Return the config's tags, then the downstream's own."""
        tags: list[Any] = [tag for matches, given in self._tags if matches(name) for tag in given]
        # FastMCP stores tags under its own key, which had an underscore in earlier releases.
        for holder in (meta, as_object(meta.get("fastmcp")), as_object(meta.get("_fastmcp"))):
            tags += as_list(holder.get("tags"))
        cleaned = (truncate(one_line(tag), TAG_MAX) for tag in tags if isinstance(tag, str))
        return tuple(islice(dict.fromkeys(tag for tag in cleaned if tag), TAGS_MAX))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known about a tool besides its definition and counts in its fingerprint."""

    loading_mode: LoadingMode
    side_effects: SideEffects | None
    tags: tuple[str, ...]
    examples: tuple[Example, ...]


def _fingerprint(server: str, draft: _Draft, facts: _Facts) -> str:
    """Return the SHA-256 of a tool's canonical JSON (R46); its examples count (R47)."""
    others = canonical_json(
        {
            "server": server,
            "name": draft.name,
            "public_name": draft.public_name,
            "loading_mode": facts.loading_mode,
            "side_effects": facts.side_effects,
            "tags": facts.tags,
            "examples": [asdict(example) for example in facts.examples],
            # Forces rows of an earlier format to be rewritten although the tools are the same.
            "row_format": ROW_FORMAT,
        }
    )
    # The definition, already serialized, is the first of the members in key order.
    return _digest(f'{{"definition":{draft.canonical},{others[1:]}'.encode())


def _digest(data: bytes) -> str:
    """Return the SHA-256 of ``data``, hashed in small pieces.

    For more data hashlib releases the interpreter lock and reacquires it before the event loop can; for hundreds of
    tools in a row, that starves the loop for 0.1 s.
    """
    digest = sha256()
    for start in range(0, len(data), _HASHED_AT_ONCE):
        digest.update(data[start : start + _HASHED_AT_ONCE])
    return digest.hexdigest()
