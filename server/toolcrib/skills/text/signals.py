"""Signals in the words of a piece for its weight: a prohibition, a gate, a file of the skill, or a fallback.

Knows words and their positions; never knows sections, room or what is shown.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

_GATES = (
    *(
        "must",
        "never",
        "do not",
        "don't",
        "always",
        "critical",
        "important",
        "required",
        "warning",
        "caution",
        "**not**",
    ),
)
"""Strong if capitalized: Important announces a gate, while "important" in running text seldom does."""
_STRONG = ("must not", "must never", "mandatory", "forbidden")
_WEAK = (
    *("only after", "only if", "only when", "unless ", "cannot ", "avoid", "before you", "before any", "before every"),
    *("first ", "ask ", "confirm", "approv", "authoriz", "permission", "instead of", "read-only", "in order", "refuse"),
    "not for",
)
_SIGNS = ("⚠", "🚨", "❌", "🔴", "⛔", "禁止", "必须", "必須", "不要")
_PREFERRED = ("recommended", "prefer", "(default", "primary ")
_FALLBACK = (
    *("fallback", "fall back", "alternative", "otherwise", "deprecated", "legacy ", "optional", "(advanced", "manual"),
)
_FILES = (".md", ".py", ".sh", ".yaml", ".yml", ".json", ".js", ".mjs", ".ts", ".txt", ".html", ".toml", ".csv", ".ps1")
_FOLDERS = frozenset(
    (
        *("references", "reference", "scripts", "script", "assets", "templates", "template", "resources", "examples"),
        *("rules", "docs", "tools", "checklists", "workflows", "prompts", "agents", "guides", "concepts", "schemas"),
        *("patterns", "playbooks", "commands", "modules", "lib", "data", "fixtures", "snippets", "troubleshooting"),
    )
)
"""Usual names of the folders of a skill."""
_STRENGTH = 2
_PATH_MAX = 200


@dataclass(slots=True)
class Signals:
    """For pieces with such signals: the strength of gates (1 or 2) and their position, preferences, files."""

    gates: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """By piece: the strength, and the position of the first such word in it."""
    preferred: dict[int, int] = field(default_factory=dict[int, int])
    """By piece: 1 for what is recommended over something else, -1 for that alternative."""
    routes: dict[int, int] = field(default_factory=dict[int, int])
    """By piece: the position of the first path of a file of the skill; each file only at its first mention."""


def read_signals(texts: Sequence[str], files: frozenset[str]) -> Signals:
    """Return the signals in these texts; ``files`` are the paths of the skill's known files."""
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    # Found by plain search in one joined text, many times faster than a pattern on each piece, and faster again if each
    # character is one byte.
    text = "\n".join(texts)
    whole = text.encode("latin-1", "replace").decode("latin-1")
    lowered = whole.lower()
    signals = Signals()

    def add(at: int, strength: int) -> None:
        index = bisect_right(starts, at) - 1
        known, place = signals.gates.get(index, (0, at))
        signals.gates[index] = (strength, at - starts[index]) if strength > known else (known, place)

    for at in _spots(lowered, _GATES):
        add(at, 1 if whole[at].islower() else _STRENGTH)
    for at in (*_spots(lowered, _STRONG), *_spots(text, () if text.isascii() else _SIGNS)):
        add(at, _STRENGTH)
    for at in _spots(lowered, _WEAK):
        add(at, 1)
    for sign, words in ((1, _PREFERRED), (-1, _FALLBACK)):
        for at in _spots(lowered, words):
            signals.preferred.setdefault(bisect_right(starts, at) - 1, sign)
    seen: set[str] = set()
    for at, path in sorted(_paths(whole)):
        index = bisect_right(starts, at) - 1
        if path not in seen and _is_own(path, whole[at - 2 : at], files):
            seen.add(path)
            signals.routes.setdefault(index, at - starts[index])
    return signals


def _spots(text: str, words: Sequence[str]) -> Iterator[int]:
    """Yield the positions of ``words``, except inside other words."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            if not (word[0].isascii() and text[at - 1 : at].isalnum()):
                yield at
            at = text.find(word, at + len(word))


def _paths(text: str) -> Iterator[tuple[int, str]]:
    """Yield the positions and texts of file paths, recognized by file name suffixes."""
    for end in _FILES:
        at = text.find(end)
        while at >= 0:
            stop = at + len(end)
            if not (text[stop : stop + 1].isalnum() or text[stop : stop + 1] in ("_", "-")):
                start = at
                while start > 0 and at - start < _PATH_MAX and (text[start - 1].isalnum() or text[start - 1] in "_-./"):
                    start -= 1
                path = text[start:stop]
                while path.startswith("./"):
                    start, path = start + 2, path[2:]
                if start < at:
                    yield start, path
            at = text.find(end, stop)


def _is_own(path: str, before: str, files: frozenset[str]) -> bool:
    """Return whether ``path`` is a file of the skill: a known one, or one written like such a file."""
    if path in files:
        return True
    if path.startswith(("/", "../", "~")) or ".." in path or "//" in path:
        return False
    folder, _, name = path.rpartition("/")
    if folder:
        return folder.split("/", 1)[0] in _FOLDERS
    # A bare name is a route if it is the target of a link, or in capitals, like README.
    stem = name.rpartition(".")[0]
    return before.endswith("(") or (name.endswith(".md") and stem.isupper() and stem not in ("SKILL", "README"))
