"""Compiles the regular expressions of models and schemas with RE2, bounded in size and time; no other module does.

Python's ``re`` can be hung by a pattern of ten characters, and holds the interpreter lock while it hangs.
"""

from typing import Any, Protocol, cast

PATTERN_MAX = 256
"""Maximum length of a caller's pattern."""

SUBJECT_MAX = 1000
"""Maximum length of each text that a caller's pattern is tried on."""

_MEMORY_MAX = 1 << 20
"""Memory limit of a compiled pattern, in bytes: RE2 then takes at most 2 ms to compile, or fails (measured)."""


class PatternError(ValueError):
    """The pattern is invalid or too large for RE2; the text says which."""


class Span(Protocol):
    """The position of a match."""

    def start(self) -> int:
        """Return the first index of the match."""
        ...

    def end(self) -> int:
        """Return the index after the match."""
        ...


class Pattern(Protocol):
    """A compiled pattern."""

    def fullmatch(self, text: str) -> Span | None:
        """Match all of ``text``."""
        ...

    def match(self, text: str) -> Span | None:
        """Match at the start of ``text``."""
        ...

    def search(self, text: str) -> Span | None:
        """Match anywhere in ``text``."""
        ...


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """Compile ``pattern`` in RE2 syntax (no look-around, no back-references) in at most 1 MiB.

    Raises:
        PatternError: not RE2 syntax, or too large once compiled.

    """
    import re2 as untyped  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - a start does not pay for it

    re2: Any = untyped
    options = re2.Options()
    options.max_mem = _MEMORY_MAX
    # RE2 would write to stderr.
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        return cast("Pattern", re2.compile(pattern, options=options))
    except UnicodeEncodeError:
        raise PatternError("it holds half a character, a lone surrogate") from None
    except re2.error as error:
        raise PatternError(_reason(error)) from None


def _reason(error: Exception) -> str:
    raw = error.args[0] if error.args else "invalid"
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
