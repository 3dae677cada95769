"""Makes untrusted text safe and searchable: splits it into words, sanitises and truncates it, and matches globs."""

import fnmatch
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from toolcrib.base.cache import SENTENCE_MAX, WORD_MAX, Remembered
from toolcrib.base.json_values import compact

_READ_BY_MODELS = ("name", "description", "inputSchema")
QUERY_MAX = 2000
"""Maximum number of characters of a query that count (C30)."""

STOP_WORDS = frozenset(
    "a about an and any are as at be by can could do does for from get give has have help hey hi how i if in into is "
    "it its let like me my need of on or our please show so some tell that the their them then there these this "
    "those to up us use using want was we what when where which who will with would you your".split()
)
"""English words that say nothing about a tool. Dropped from queries unless nothing else is left."""

FILLERS = frozenset("的了吗呢吧我你您请帮把们这那个")
"""Chinese characters that say nothing about a tool; a run of characters is split at these."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ASCII_WORD = re.compile(r"[a-z]+|[A-Z](?:[a-z]+|[A-Z]*(?![a-z]))|[0-9]+")
# Thai and Lao, Burmese, Khmer, kana, ideographs and Hangul.
_UNSPACED_RANGES = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_SENTENCE_END = re.compile(r"(?<=[.!?。!?])\s+|\n\s*\n|\r?\n(?=\s*[-*#])")
_SPACE = re.compile(r"\s+")
_WILDCARD = re.compile(r"[*?\[]")
_EMOJI_STYLE, _KEYCAP, _KEYS = "\ufe0f", "\u20e3", "#*0123456789"
_SYMBOLS, _STYLED_BESIDES = ("So", "Sm"), "\u203c\u2049\u2139\u3030\u303d"
"""What U+FE0F makes an emoji of: categories, and the characters of others (emoji-variation-sequences.txt)."""
_NON_JOINER, _JOINER = "\u200c", "\u200d"
_KEPT = f"\n\t{_EMOJI_STYLE}{_NON_JOINER}{_JOINER}"
_SEEN_IN_PLACE = re.compile(f"[{_EMOJI_STYLE}{_NON_JOINER}{_JOINER}]")
_MARKS_MAX = 4
"""Combining marks on one letter; Hebrew with its points and accents has so many."""
_SPACES_MAX = 16
"""Spaces of a run that are shown; code is indented by so many."""
_LOOK_ALIKE = frozenset("\u02ba\u02dd\u02ee\u02f6\u2033\u2036\u3003\uff02\uff3c\ufe68\u2216\u29f5\u29f9\ufffc\u303f")
"""What is drawn like a straight quotation mark or a backslash (confusables.txt of UTS 39), or as an empty box."""
_TOKEN = 4
"""Approximate characters per token (R144)."""
_WORDS_KEPT, _TEXTS_KEPT = 20_000, 10_000
_ASCII_MARKS = {code: None for code in range(128) if not chr(code).isalnum()}


@cache
def _unspaced() -> re.Pattern[str]:
    # Built for the first text that is not ASCII: such a large set takes milliseconds, which a start should not wait
    # for.
    return re.compile(f"[{_UNSPACED_RANGES}]")


@cache
def _undrawn() -> re.Pattern[str]:
    """Return the pattern of a printable character that is drawn as nothing.

    These are the ``Default_Ignorable_Code_Point`` of Unicode that are neither format characters nor unassigned, and
    the empty glyphs of Braille, of notes, and of Khitan.
    """
    return re.compile(
        r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
        r"\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
    )


@cache
def _joining() -> re.Pattern[str]:
    """Return the pattern of a character of a script whose letters take different forms side by side.

    These are the cursive scripts (``Joining_Type`` of Unicode), and those of India and its neighbours, whose letters
    merge by a virama (``Indic_Syllabic_Category``).
    """
    return re.compile(
        # Arabic, Syriac, N'Ko, Mandaic; Devanagari to Sinhala; Tibetan, Burmese; Philippine, Khmer, Mongolian.
        r"[\u0610-\u06ff\u0710-\u077f\u07ca-\u07fa\u0840-\u0dff\u0f40-\u109f\u1710-\u17df\u1820-\u18aa"
        # Limbu to Tai Tham, Balinese to Lepcha, Vedic; Syloti to Javanese, Cham and Burmese, Meetei; Arabic forms.
        r"\u1900-\u1aad\u1b00-\u1c4f\u1cd0-\u1cff\ua800-\ua95f\ua980-\uaa7f\uaae0-\uaaff\uabc0-\uabed"
        r"\ufb50-\ufdff\ufe70-\ufefc"
        # Kharoshthi, Manichaean, Pahlavi, Rohingya; Arabic to Chorasmian; Brahmi to Dogra, Dives Akuru to Soyombo.
        r"\U00010a00-\U00010a3f\U00010ac0-\U00010aff\U00010b80-\U00010baf\U00010d00-\U00010d39"
        r"\U00010ec2-\U00010fdf\U00011000-\U00011839\U00011900-\U00011a9f"
        # Bhaiksuki to Kawi; Adlam.
        r"\U00011c00-\U00011f5f\U0001e900-\U0001e94b]"
    )


@cache
def _pictograph() -> re.Pattern[str]:
    """Return the pattern of a symbol that emoji are joined of: the arrows, signs and pictures among them."""
    return re.compile(r"[\u2194\u2195\u2600-\u27bf\u2b1b\U0001f000-\U0001faff]")


@cache
def _inside_letters() -> re.Pattern[str]:
    """Return the pattern of a joiner or non-joiner that separates no words."""
    return re.compile(r"\u200d|(?<=[\u0900-\u109f\u1710-\u17df\u1900-\u1c4f\ua800-\uabea\U00011000-\U00011fff])\u200c")


@cache
def _piece() -> re.Pattern[str]:
    """Return the pattern of a run of Thai to Hangul, of digits, or of other letters.

    Marks that are part of letters in Arabic and Indic scripts stay.
    """
    return re.compile(
        rf"[{_UNSPACED_RANGES}]+|\d+"
        rf"|(?:[^\W\d_{_UNSPACED_RANGES}]|[\u064b-\u065f\u0900-\u0963\u0981-\u0dff\u0f71-\u0f84])+"
    )


def words(text: str) -> list[str]:
    """Return the lower-case words of ``text``: camelCase, snake_case, dots, hyphens and digits are split.

    Accents are removed. Unspaced scripts, such as Chinese, give bigrams of characters.
    """
    if text.isascii():
        return [word.lower() for word in _ASCII_WORD.findall(text)]
    found: list[str] = []
    for piece in _pieces(text):
        found += _pairs(piece) if _unspaced().match(piece) else [piece]
    return found


def counted_words(text: str) -> dict[str, int]:
    """Return the words of ``text`` with their counts; several times as fast as counting :func:`words`."""
    lines = text.splitlines()
    # In ASCII all lines are split at once, and each word is made lower-case once however often it is written.
    written = Counter(_ASCII_WORD.findall("\n".join(line for line in lines if line.isascii())))
    for line in lines:
        if not line.isascii():
            written.update(words(line))
    counts: dict[str, int] = {}
    for word, count in written.items():
        lowered = word.lower()
        counts[lowered] = counts.get(lowered, 0) + count
    return counts


def _pieces(text: str) -> list[str]:
    """Return the runs of letters, of digits, and of characters of unspaced scripts; folded, lower-case."""
    # A joiner is part of a letter. A non-joiner is one in the scripts of India; elsewhere, as in Persian, it separates.
    if _JOINER in text or _NON_JOINER in text:
        text = _inside_letters().sub("", text)
    # casefold() makes Cherokee letters capitals, hence lower() too.
    split = _CAMEL.sub(" ", unicodedata.normalize("NFKC", text)).casefold().lower()
    # Accents are separate only in decomposed text. Composing it again restores the syllables of Hangul.
    plain = unicodedata.normalize("NFD", split).translate(_ACCENTS)
    return _piece().findall(unicodedata.normalize("NFC", plain))


def _pairs(run: str) -> list[str]:
    """Return the bigrams of a run, split at fillers; a single character is returned alone."""
    parts = "".join(" " if char in FILLERS else char for char in run).split() or [run]
    return [pair for part in parts for pair in (map("".join, pairwise(part)) if len(part) > 1 else [part])]


def search_text(text: str) -> str:
    """Return ``text`` as the index stores it: its words separated by spaces."""
    return " ".join(words(text))


class SearchTexts:
    """Computes search texts, caching short texts and words. Safe to use from several threads."""

    def __init__(self) -> None:
        self._of_word = Remembered(search_text, _WORDS_KEPT, WORD_MAX)
        self._of_text = Remembered(self._made, _TEXTS_KEPT, SENTENCE_MAX)

    def compute(self, text: str) -> str:
        """Return the result of :func:`search_text`."""
        return self._of_text[text]

    def _made(self, text: str) -> str:
        # No white space is part of a word.
        return " ".join(filter(None, map(self._of_word.__getitem__, text.split())))


def spelling_key(text: str) -> str:
    """Return ``text`` reduced to its letters and digits, so that every spelling of a name becomes one."""
    if not text.isascii():
        return "".join(_pieces(text))
    plain = text.lower().replace("_", "").replace("-", "")
    return plain if plain.isalnum() else plain.translate(_ASCII_MARKS)  # most names are plain, and there are many


def query_terms(query: str) -> list[str]:
    """Return the distinct words of a query that carry meaning, in order; all its words if none of them does."""
    every = list(dict.fromkeys(words(query[:QUERY_MAX])))
    return [word for word in every if word not in STOP_WORDS] or every


def sanitize(text: str) -> str:
    """Return ``text`` without the characters that a person cannot see: one definition for all foreign text (ADR 79).

    These are control, format (bidirectional, zero-width, tag), private, unassigned and lone surrogate characters; the
    others that Unicode has programs draw as nothing (``Default_Ignorable_Code_Point``: variation selectors, fillers of
    Hangul and more); and those whose glyph is empty. Newlines and tabs stay, and U+FE0F where it makes an emoji of the
    symbol before it, or of a keycap. So do U+200C and U+200D where words are written with them (UAX 31, 2.3): one after
    a letter or mark of a script that joins or merges its letters, and U+200C before such a letter; and U+200D between
    the pictures of an emoji (UTS 51).
    """
    return _with_hidden(text, lambda _: "")


def unjoined(text: str) -> str:
    """Return ``text`` without joiners and non-joiners, also those that :func:`sanitize` keeps."""
    return text.replace(_NON_JOINER, "").replace(_JOINER, "")


def marked(text: str) -> str:
    """Return ``text`` with the characters that :func:`sanitize` removes made visible, as in ``[U+200B]``."""
    return _with_hidden(text, lambda char: f"[U+{ord(char):04X}]")


def escaped(text: str) -> str:
    """Return ``text`` with each character that may deceive a person as an escape of JSON (ADR 88).

    These are all that :func:`sanitize` removes, also where it keeps them; white space but for U+0020, and that in long
    runs; marks that are not on a letter of their script, or too many on one; and what looks like a straight quotation
    mark or a backslash. Other characters of all scripts stay.
    """
    return "".join(escaped_characters(text))


def escaped_characters(text: str) -> Iterator[str]:
    """Yield each character of ``text`` as :func:`escaped` shows it."""
    script, marks, spaces = "", 0, 0
    for char in text:
        category = unicodedata.category(char)
        spaces = spaces + 1 if char == " " else 0
        is_seen = char.isprintable() and not _undrawn().match(char) and char not in _LOOK_ALIKE
        if category in {"Mn", "Me"}:
            marks += 1
            is_seen = is_seen and marks <= _MARKS_MAX and _is_of_script(char, script)
        elif category != "Mc":  # a mark that stands beside its letter takes others as that does
            marks, script = 0, unicodedata.name(char, "").partition(" ")[0] if char.isalnum() else ""
        if not is_seen or spaces > _SPACES_MAX:
            script = ""  # nothing is drawn onto an escape
            yield _as_json(char)
        else:
            yield char


def _is_of_script(mark: str, script: str) -> bool:
    """Return whether a mark is meant for a letter whose name in Unicode begins with ``script``; for none if empty."""
    return script != "" and unicodedata.name(mark, "").partition(" ")[0] in {"COMBINING", "VEDIC", script}


def _as_json(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _with_hidden(text: str, shown: Callable[[str], str]) -> str:
    """Return ``text`` with each character that a person cannot see as ``shown`` returns it."""
    # Characters that are kept are excluded first: nearly every text has no other unprintable one.
    if text.replace("\n", "").replace("\t", "").isprintable() and (text.isascii() or not _undrawn().search(text)):
        return text
    text = _SEEN_IN_PLACE.sub(lambda at: at[0] if _is_in_place(at.string, at.start()) else shown(at[0]), text)
    hidden = [
        char
        for char in set(text)
        if char not in _KEPT and (unicodedata.category(char).startswith("C") or _undrawn().match(char))
    ]
    return text.translate({ord(char): shown(char) for char in hidden}) if hidden else text


def _is_in_place(text: str, at: int) -> bool:
    """Return whether a character that is seen only by what it makes of its neighbours has such neighbours."""
    if text[at] == _EMOJI_STYLE:
        return _is_styled(text, at)
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if _joins(before):
        return True
    if text[at] == _NON_JOINER:  # as in "PDF" with a Persian ending
        return _joins(after) and before.isprintable() and before.strip() != "" and not _undrawn().match(before)
    if before == _EMOJI_STYLE and _is_styled(text, at - 1):
        before = text[at - 2]
    return all(_pictograph().match(each) and unicodedata.category(each)[0] == "S" for each in (before, after))


def _joins(char: str) -> bool:
    """Return whether a character is a letter or a mark of a script that joins or merges its letters."""
    if not _joining().match(char) or _undrawn().match(char):
        return False
    return unicodedata.category(char)[0] in "LM"


def _is_styled(text: str, at: int) -> bool:
    """Return whether the character before ``at`` is one that U+FE0F makes an emoji."""
    before = text[at - 1 : at]
    if before.isascii():
        return before != "" and before in _KEYS and text[at + 1 : at + 2] == _KEYCAP
    if before in _STYLED_BESIDES:
        return True
    return unicodedata.category(before) in _SYMBOLS and not _undrawn().match(before)


def one_line(text: str) -> str:
    """Return ``text`` sanitised, with every run of white space as one space."""
    return _SPACE.sub(" ", sanitize(text)).strip()


def truncate(text: str, limit: int) -> str:
    """Return ``text`` truncated to at most ``limit`` characters, at a word boundary if one is near, with ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: max(limit - 1, 0)]
    space = head.rfind(" ")
    return (head[:space] if space > limit * 2 // 3 else head).rstrip(" ,.;:") + "…"


def enumerated(names: Sequence[str], room: int) -> str:
    """Return as many of ``names`` as fit into ``room`` characters, and the number of others: ``a, b and 3 more``."""
    for shown in range(len(names), 0, -1):
        rest = len(names) - shown
        text = ", ".join(names[:shown]) + (f" and {rest} more" if rest else "")
        if len(text) <= room:
            return text
    return f"{len(names)} in all" if names else ""


def split_summary(text: str) -> tuple[str, str]:
    """Return the first sentence or paragraph of ``text``, and the rest."""
    stripped = text.strip()
    end = _SENTENCE_END.search(stripped)
    return (stripped[: end.start()], stripped[end.end() :]) if end else (stripped, "")


def estimate_tokens(text: str) -> int:
    """Return the estimated number of tokens of ``text``: a quarter of its characters, rounded up (R144)."""
    return -(-len(text) // _TOKEN)


def definition_tokens(definition: Mapping[str, Any]) -> int:
    """Return what a model reads of a tool's definition, in estimated tokens: hosts show it these members."""
    return estimate_tokens(compact({key: definition[key] for key in _READ_BY_MODELS if key in definition}))


def characters_of(tokens: int) -> int:
    """Return the maximum length of a text of this many estimated tokens."""
    return tokens * _TOKEN


def glob_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a predicate: does any of these case-sensitive globs match the whole name? No patterns: never."""
    # fnmatch writes atomic groups, so no glob can make matching slow.
    alternatives = [fnmatch.translate(pattern) for pattern in patterns]
    if not alternatives:
        return lambda _name: False
    match = re.compile("|".join(alternatives)).match
    return lambda name: match(name) is not None


def exact_glob(name: str) -> str:
    """Return the glob that only ``name`` fits."""
    return _WILDCARD.sub(lambda match: f"[{match[0]}]", name)


def glob_may_begin(pattern: str, start: str) -> bool:
    """Return whether this case-sensitive glob can match a name that begins with ``start``."""
    literal = _WILDCARD.split(pattern, maxsplit=1)[0]
    if literal == pattern or not start.startswith(literal):
        return literal.startswith(start)
    if pattern[len(literal)] == "*":
        return True
    return any(fnmatch.fnmatchcase(start, pattern[:end]) for end in range(len(pattern) + 1))
