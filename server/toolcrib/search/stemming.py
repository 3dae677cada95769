"""English word stems by Porter's algorithm of 1980, the same as FTS5's ``porter`` tokenizer makes.

Knows the endings of words; never knows where a word comes from.
"""

from collections.abc import Callable
from functools import lru_cache

_MEMORY_MAX = 50_000
_LENGTHS = range(3, 65)
"""FTS5 stems words of these lengths only."""

_DERIVED: dict[str, str] = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "logi": "log", "bli": "ble",
    "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate",
    "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive",
    "biliti": "ble",
}  # fmt: skip
_ADJECTIVES: dict[str, str] = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_PLAIN: dict[str, str] = dict.fromkeys(
    "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split(), ""
)


def stemmer() -> Callable[[str], str]:
    """Return :func:`stem` with a memory of its own: the words of tools repeat a lot."""
    return lru_cache(_MEMORY_MAX)(stem)


def stem(word: str) -> str:
    """Return the stem of a lower-case word: ``connections`` and ``connected`` both give ``connect``."""
    if len(word) not in _LENGTHS:
        return word
    word = _without_participle(_without_plural(word))
    if word.endswith("y") and "v" in _form(word[:-1]):
        word = word[:-1] + "i"
    word = _replace_ending(word, _DERIVED, 1)
    word = _replace_ending(word, _ADJECTIVES, 1)
    word = _replace_ending(word, _PLAIN, 2)
    return _without_final_e(word)


def _form(word: str) -> str:
    """Return ``word`` with each vowel as ``v`` and each consonant as ``c``; y after a consonant is a vowel."""
    form = ""
    for letter in word:
        form += "v" if letter in "aeiou" or (letter == "y" and form.endswith("c")) else "c"
    return form


def _measure(word: str) -> int:
    """Return how often a consonant follows a vowel: Porter's m, about the number of syllables."""
    return _form(word).count("vc")


def _is_short(word: str) -> bool:
    """Return whether ``word`` ends consonant, vowel, consonant, like ``hop``; w, x and y do not count."""
    return _form(word).endswith("cvc") and word[-1] not in "wxy"


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")) and len(word) > 3:
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_participle(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next((ending for ending in ("ed", "ing") if word.endswith(ending)), None)
    if ending is None or "v" not in _form(word[: -len(ending)]):
        return word
    word = word[: -len(ending)]
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if word[-2:-1] == word[-1] and word[-1] not in "aeioulsz":
        return word[:-1]
    return word + "e" if _measure(word) == 1 and _is_short(word) else word


def _replace_ending(word: str, endings: dict[str, str], measure: int) -> str:
    """Replace the longest of ``endings`` that ``word`` has, if enough of the word is left."""
    for length in range(min(7, len(word) - 1), 1, -1):
        ending = word[-length:]
        if ending in endings:
            kept = word[:-length]
            fits = _measure(kept) >= measure and (ending != "ion" or kept[-1] in "st")
            return kept + endings[ending] if fits else word
    return word


def _without_final_e(word: str) -> str:
    if word.endswith("e"):
        left = word[:-1]
        if _measure(left) > 1 or (_measure(left) == 1 and not _is_short(left)):
            word = left
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
