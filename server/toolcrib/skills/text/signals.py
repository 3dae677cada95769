"""What the words of a piece say about its weight: it forbids or gates, names a file of the skill, or is a way out.

Knows words and where they stand; never knows sections, room or what is shown.
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
"""Strong where they begin with a capital: Important announces a gate, while "important" in running text seldom does."""
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
"""What authors call the folders beside a skill."""
_STRENGTH = 2
_PATH_MAX = 200


@dataclass(slots=True)
class Signals:
    """Of each piece that says such a thing: how strongly it gates (1 or 2) and where, its preference, its files."""

    gates: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """By piece: the strength, and the place of the first such word in it."""
    preferred: dict[int, int] = field(default_factory=dict[int, int])
    """By piece: 1 what should be done rather than something else, -1 what that is."""
    routes: dict[int, int] = field(default_factory=dict[int, int])
    """By piece: the place of the first path of a file of the skill; each file once, where it is named first."""


def read_signals(texts: Sequence[str], files: frozenset[str]) -> Signals:
    """Return what these texts say; ``files`` are the paths of the skill's files that are known to exist."""
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    # Found by plain search in one text, which is many times faster than a pattern tried on each piece, and faster
    # again where each character is one byte.
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
    """Yield where one of ``words`` stands, not inside another word."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            if not (word[0].isascii() and text[at - 1 : at].isalnum()):
                yield at
            at = text.find(word, at + len(word))


def _paths(text: str) -> Iterator[tuple[int, str]]:
    """Yield where a path of a file begins, and the path, by the ends of names of files."""
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
    """Return whether ``path`` is a file of the skill: a known one, or one that is written as such are."""
    if path in files:
        return True
    if path.startswith(("/", "../", "~")) or ".." in path or "//" in path:
        return False
    folder, _, name = path.rpartition("/")
    if folder:
        return folder.split("/", 1)[0] in _FOLDERS
    # A bare name is a route where it is the target of a link, or in capitals, as README-like files are.
    stem = name.rpartition(".")[0]
    return before.endswith("(") or (name.endswith(".md") and stem.isupper() and stem not in ("SKILL", "README"))
