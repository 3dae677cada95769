"""What a terminal needs that a pipe does not: lines that end at words, colour, and tables of its width.

Colour follows the conventions that other programs follow too: ``NO_COLOR`` and ``FORCE_COLOR``, else whether the stream
is a terminal. What goes to a pipe or a file is one line a thing, as wide as it is, for other programs to read (ADR 80).
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TextIO

from toolcrib.base.text import one_line, sanitize

_WIDTH_MIN = 20
_PIPED_WIDTH = 120
"""Columns where colour is asked for and there is no terminal, as before ``less -R``."""

_TEXT_MIN = 24
"""The narrowest column of text beside names; below it, texts stand under their names."""

_GAP = 2


class Role(Enum):
    """What a piece of text is; the value is how it looks, as parameters of the escape sequence SGR."""

    HEADING = "1"
    NAME = "1;36"
    GOOD = "32"
    WARNING = "33"
    BAD = "1;31"
    FAINT = "2"


def has_color(stream: TextIO) -> bool:
    """Return whether what goes to this stream is coloured."""
    if os.environ.get("FORCE_COLOR"):
        return True
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def columns_of(stream: TextIO) -> int | None:
    """Return how wide the terminal behind a stream is; None if there is none."""
    if stream.isatty():
        try:
            wide = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):
            wide = shutil.get_terminal_size().columns
        return max(_WIDTH_MIN, wide)
    return _PIPED_WIDTH if os.environ.get("FORCE_COLOR") else None


def painted(text: str, role: Role, stream: TextIO) -> str:
    """Return a text as it looks on a stream. The text must not steer the terminal: see :func:`sanitize`."""
    return f"\x1b[{role.value}m{text}\x1b[0m" if text and has_color(stream) else text


def folded(text: str, stream: TextIO) -> str:
    """Return a text whose lines fit the terminal, broken between words; the rest of a line is indented further."""
    columns = columns_of(stream)
    if columns is None or all(len(line) <= columns for line in text.split("\n")):
        return text
    return "\n".join(_folded_line(line, columns) for line in text.split("\n"))


def _folded_line(line: str, columns: int) -> str:
    from textwrap import fill

    if len(line) <= columns:
        return line
    rest = line.lstrip()
    indent = line[: len(line) - len(rest)]
    return fill(
        rest,
        columns,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. One of ``words`` wraps between them, any other is never broken."""

    heading: str
    words: bool = False
    right: bool = False
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; a column that is empty in all of them is not shown. ``plain`` is what a pipe gets.

    Without it a pipe gets aligned columns, the last of which is not padded.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    plain: Sequence[str] | None = None

    def lines(self, stream: TextIO) -> Iterator[str]:
        """Yield the lines for a stream; nothing in a cell can steer the terminal, and none breaks a name."""
        width = columns_of(stream)
        if width is None:
            yield from (sanitize(line) for line in (self._aligned() if self.plain is None else self.plain))
            return
        drawn = _Drawn(self.columns, [[one_line(sanitize(cell)) for cell in row] for row in self.rows], stream)
        yield from drawn.lines(width)

    def _aligned(self) -> Iterator[str]:
        lines = [[one_line(cell) for cell in row] for row in ([each.heading for each in self.columns], *self.rows)]
        # The last column stays unpadded: trailing spaces would wrap long lines.
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
        for line in lines:
            padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=False))
            yield "  ".join([*padded, line[-1]]).rstrip()


class _Drawn:
    """A table on one terminal: texts beside their names, or below them where names leave too little room."""

    def __init__(self, columns: Sequence[Column], cells: Sequence[Sequence[str]], stream: TextIO) -> None:
        shown = [number for number, _ in enumerate(columns) if any(row[number] for row in cells)]
        self._columns = [columns[number] for number in shown]
        self._rows = [[row[number] for number in shown] for row in cells]
        self._stream = stream

    def lines(self, width: int) -> Iterator[str]:
        texts = sum(column.words for column in self._columns)
        taken = sum(
            max(len(column.heading), *(len(row[number]) for row in self._rows))
            for number, column in enumerate(self._columns)
            if not column.words
        )
        room = width - taken - _GAP * (len(self._columns) - 1)
        return self._beside(width) if room >= _TEXT_MIN * texts else self._below(width)

    def _beside(self, width: int) -> Iterator[str]:
        # Only where a table is drawn: it takes longer to import than most commands take.
        from rich.console import Console
        from rich.table import Table as Drawing
        from rich.text import Text

        drawing = Drawing(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for column in self._columns:
            drawing.add_column(
                Text(column.heading),
                no_wrap=not column.words,
                overflow="fold",
                justify="right" if column.right else "left",
            )
        for row in self._rows:
            drawing.add_row(
                *(Text(cell, _STYLES.get(each.role, "")) for cell, each in zip(row, self._columns, strict=True))
            )
        system = "standard" if has_color(self._stream) else None
        console = Console(width=width, color_system=system, force_terminal=True, highlight=False)
        with console.capture() as captured:
            console.print(drawing)
        return (line.rstrip() for line in captured.get().rstrip("\n").split("\n"))

    def _names(self, row: Sequence[str], width: int) -> Iterator[str]:
        """Yield the names of a row: the first one, and the others beside it, or below it where they do not fit."""
        pairs = [pair for pair in zip(row, self._columns, strict=True) if pair[0] and not pair[1].words]
        first, *others = [painted(cell, column.role or Role.FAINT, self._stream) for cell, column in pairs]
        if sum(len(cell) + _GAP for cell, _ in pairs) - _GAP <= width:
            yield "  ".join((first, *others))
        else:
            yield first
            yield f"    {'  '.join(others)}"

    def _below(self, width: int) -> Iterator[str]:
        for row in self._rows:
            yield from self._names(row, width)
            for cell, column in zip(row, self._columns, strict=True):
                if cell and column.words:
                    yield folded(f"    {cell}", self._stream)


_STYLES: dict[Role | None, str] = {
    Role.HEADING: "bold",
    Role.NAME: "bold cyan",
    Role.GOOD: "green",
    Role.WARNING: "yellow",
    Role.BAD: "bold red",
    Role.FAINT: "dim",
}
"""The roles in rich's words."""
