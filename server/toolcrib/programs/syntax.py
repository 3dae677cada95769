"""Python's own parser, which several threads must not use at once."""

import ast
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_PARSER = threading.Lock()
"""Held while a tree is built. CPython before 3.11.8 and 3.12.2 counts its depth for the whole interpreter, so that two
threads, one of which pauses for the garbage collector, end in SystemError (python/cpython#106905).
"""


def tree_of(code: str) -> ast.Module:
    """Return the tree of a program.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is not Python, or nested too deeply.

    """
    with _parsing():
        return ast.parse(code)


def literal(text: str) -> Any:
    """Return the value of a literal.

    Raises:
        SyntaxError, ValueError, TypeError, RecursionError, MemoryError: it is none, or nested too deeply.

    """
    with _parsing():
        return ast.literal_eval(text)


@contextmanager
def _parsing() -> Generator[None]:
    with _PARSER, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes in strings, which go to nobody here
        yield
