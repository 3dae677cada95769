"""Names and examples in a config that match no tool: typos, and tools that a server has renamed or changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from toolcrib.base.errors import Problem
from toolcrib.base.model import Tool
from toolcrib.base.names import SEPARATOR, bare_name, host_spellings, name_digest, qualified_spellings
from toolcrib.base.text import glob_matcher
from toolcrib.catalog.arguments import SchemaChecker
from toolcrib.catalog.index import ToolIndex
from toolcrib.config.findings import did_you_mean, join
from toolcrib.config.schema import ServerSection
from toolcrib.config.settings import Settings

_ALL = "known: "
"""How a hint begins that names all names, because none is near."""
_POLICY = "toolcrib.policy."

_WILD = frozenset("*?[")
_ANYTHING = "*?_./:"
"""Characters of a pattern that alone do not constrain a name."""


@dataclass(frozen=True, slots=True)
class _LastListed:
    """The last list of each server, regardless of the config at that time.

    ``tools`` lacks servers that were never listed. ``denied`` are digests of bare names that nobody could use then;
    None if they are not known. ``besides`` are servers, names and URIs of listed items other than tools;
    ``hides_besides``: there are more of these that nobody may use.
    """

    tools: Mapping[str, Sequence[Tool]]
    denied: frozenset[str] | None
    besides: Sequence[tuple[str, str, str]] = ()
    hides_besides: bool = False


def find_unmatched(settings: Settings, index: ToolIndex | None, checker: SchemaChecker) -> Iterator[Problem]:
    """Yield each name, pattern and example of the config that fits no tool, with similar names, as far as known.

    A name that is near none is no mistake where it only says how a tool is shown: another version of the server, or
    another one, may have it. In a policy it is one, because somebody relies on it.

    Servers that were never listed may have any tool; if ``index`` is None, that is every server.

    Raises:
        StoreError: the index cannot be read.

    """
    listed = _LastListed({}, frozenset()) if index is None else _last_listed(index, settings.servers)
    names = _Names(settings, listed)
    for place, globs, bare_too in _patterns(settings):
        yield from _unmatched(place, enumerate(globs), partial(names.why_no_tool, bare_too=bare_too))
    for number, key in enumerate(settings.toolcrib.tool_search.preferred_namespaces):
        if key not in names.servers:
            place = join("toolcrib.tool_search.preferred_namespaces", number)
            yield _unknown(place, f"there is no server {key}", did_you_mean(key, names.servers))
    for key, options in settings.toolcrib.servers.items():
        if key in listed.tools:
            yield from _unmatched_of(key, options, names)
    if index is not None:
        yield from _unfit_examples(settings, listed, index, checker)


def _unmatched_of(key: str, options: ServerSection, names: "_Names") -> Iterator[Problem]:
    """Yield the names in the options of one server that none of its tools has, each once with all its places."""
    why, found = names.why_no_tool_of(key), dict[tuple[str, str], list[str]]()
    for name, globs in _by_tool(options):
        for place, glob in globs:
            if reason := why(glob):
                found.setdefault(reason, []).append(join(name, place))
    listed = False
    for (reason, hint), (first, *others) in found.items():
        more = f", also in {', '.join(others)}" if others else ""
        # All names of the server help once.
        is_list = hint.startswith(_ALL)
        shown = "" if listed and is_list else hint
        listed = listed or is_list
        yield replace(_unknown(join("toolcrib.servers", key, first), f"{reason}{more}", hint), hint=shown)


def _unknown(place: str, reason: str, hint: str) -> Problem:
    """Return the problem of a name that nothing has; a hint that names all there are says that it is near none."""
    is_mistake = place.startswith(_POLICY) or bool(hint and not hint.startswith(_ALL))
    return Problem(place, reason, hint, is_mistake=is_mistake)


def _last_listed(index: ToolIndex, servers: Iterable[str]) -> _LastListed:
    rows = index.server_rows()
    known = {key: rows[key].config_fingerprint for key in servers if key in rows}
    tools: dict[str, list[Tool]] = {key: [] for key in known}
    for tool in index.load(known):
        tools[tool.server].append(tool)
    return _LastListed(tools, index.denied(known), *index.besides_tools())


def _unfit_examples(
    settings: Settings, listed: _LastListed, index: ToolIndex, checker: SchemaChecker
) -> Iterator[Problem]:
    """Yield validation errors of the config's examples, by the schemas of the tools as last listed."""
    for key, options in settings.toolcrib.servers.items():
        for tool in listed.tools.get(key, ()):
            examples = options.tool_examples.get(tool.name, ())
            definition = index.definitions([tool.row] if examples else []).get(tool.row, {})
            for number, example in enumerate(examples if definition else ()):
                place = join("toolcrib.servers", key, "tool_examples", tool.name, number)
                misfits = checker.check(tool.fingerprint, definition["inputSchema"], dict(example.args))
                found = (f"does not fit the tool: {misfit}" for misfit in misfits or ())
                yield from (Problem(place, reason, is_mistake=True) for reason in found)


def _by_tool(options: ServerSection) -> Iterator[tuple[str, Iterable[tuple[int | str, str]]]]:
    """Yield a server's config keys that name its tools, with the names and their places."""
    yield "always_loaded_tools", enumerate(options.always_loaded_tools)
    yield "deferred_tools", enumerate(options.deferred_tools or ())
    for key in ("tags", "side_effects", "tool_examples"):
        yield key, ((name, name) for name in getattr(options, key))


def _patterns(settings: Settings) -> Iterator[tuple[str, Sequence[str], bool]]:
    """Yield the patterns about tools of any server, with their places, and whether they match bare names too."""
    policy = settings.toolcrib.policy
    yield "toolcrib.tool_search.always_loaded_patterns", settings.toolcrib.tool_search.always_loaded_patterns, False
    yield from _patterns_of_skills(settings)
    yield "toolcrib.policy.allow", policy.allow, False
    yield "toolcrib.policy.deny", policy.deny, True
    yield "toolcrib.policy.confirm.tools", policy.confirm.tools, True
    for number, rule in enumerate(policy.visibility):
        place = join("toolcrib.policy.visibility", number)
        yield join(place, "allow"), rule.allow or (), False
        yield join(place, "deny"), rule.deny, True


def _patterns_of_skills(settings: Settings) -> Iterator[tuple[str, Sequence[str], bool]]:
    section = settings.toolcrib
    by_place = {"toolcrib.tool_search.skill_scoped_patterns": section.tool_search.skill_scoped_patterns}
    by_place |= {
        join("toolcrib.skill_tools", skill, "tools"): entry.tools for skill, entry in section.skill_tools.items()
    }
    for place, globs in by_place.items():
        yield place, [host_spellings(glob)[-1] for glob in globs], True


def _unmatched(
    place: str, globs: Iterable[tuple[int | str, str]], why: Callable[[str], tuple[str, str] | None]
) -> Iterator[Problem]:
    for key, glob in globs:
        if found := why(glob):
            yield _unknown(join(place, key), *found)


class _Names:
    """The existing names, and why a pattern matches none: a reason and a hint; None if it may match."""

    def __init__(self, settings: Settings, listed: _LastListed) -> None:
        self.servers = [*settings.servers, *(why.key for why in settings.skipped)]
        self._listed = listed
        self._is_complete = listed.tools.keys() >= set(settings.servers) and not settings.skipped
        every = [tool for tools in listed.tools.values() for tool in tools]
        self._bare = [tool.name for tool in every]
        self._qualified = [
            spelling for tool in every for spelling in qualified_spellings(tool.server, tool.name, tool.public_name)
        ]

    def why_no_tool_of(self, server: str) -> Callable[[str], tuple[str, str] | None]:
        """Return a function that says why a pattern matches none of this server's tools."""
        names = [tool.name for tool in self._listed.tools[server]]

        def why(glob: str) -> tuple[str, str] | None:
            if any(map(glob_matcher([glob]), names)) or self._may_be_denied(glob):
                return None
            return f"{server} has no such tool: {glob}", did_you_mean(glob, names)

        return why

    def why_no_tool(self, glob: str, *, bare_too: bool) -> tuple[str, str] | None:
        """Return why a pattern matches nothing of any server; ``bare_too``: it may also match bare names."""
        matches = glob_matcher([glob])
        names = chain(self._qualified, self._bare if bare_too else ())
        if not glob.strip(_ANYTHING) or any(map(matches, names)) or self._is_besides_tools(glob, matches):
            return None
        server, rest = self._split(glob)
        # A server that was never listed may have any tool.
        if server is not None:
            return self.why_no_tool_of(server)(rest) if server in self._listed.tools else None
        if not bare_too and any(map(matches, self._bare)):
            return f"matches no tool, because these patterns name the server too: {glob}", f"write *.{glob}"
        begin, *more = SEPARATOR.split(glob)
        meant = did_you_mean(begin, self.servers) if more and not _WILD & set(begin) else ""
        if meant and (self._is_complete or not bare_too or meant.startswith("did")):
            return f"there is no server {begin}", meant
        if not self._is_complete or self._may_be_denied(glob):
            return None
        return f"there is no such tool: {glob}", did_you_mean(glob, self._bare if bare_too else self._qualified)

    def _is_besides_tools(self, glob: str, matches: Callable[[str], bool]) -> bool:
        """Return whether a pattern is, or may be, about a resource or a prompt."""
        # What nobody may use is stored as a digest only, so a pattern cannot be compared with it.
        if "://" in glob or self._listed.hides_besides:
            return True
        names = ((server, each) for server, *both in self._listed.besides for each in both)
        return any(matches(each) or any(map(matches, qualified_spellings(key, each, each))) for key, each in names)

    def _split(self, glob: str) -> tuple[str | None, str]:
        """Return the server that a pattern begins with, and the rest; None if it begins with no server's name."""
        for key in self.servers:
            rest = bare_name(glob, key)
            if rest is not None:
                return key, rest
        return None, glob

    def _may_be_denied(self, glob: str) -> bool:
        """Return whether a pattern may be about tools that nobody could use: only digests of their names are known."""
        denied = self._listed.denied
        if denied is None or _WILD & set(glob):
            return denied is None or bool(denied)
        return name_digest(glob) in denied
