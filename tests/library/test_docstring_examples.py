import doctest
from importlib import import_module
from pathlib import Path

import pytest

import toolcrib
import toolcrib.library

NAMES = sorted(path.stem for path in Path(toolcrib.library.__file__).parent.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_docstrings_run(name: str):
    result = doctest.testmod(import_module(f"toolcrib.library.{name}"), optionflags=doctest.ELLIPSIS)
    assert not result.failed


def test_there_are_examples():
    found = doctest.DocTestFinder().find(import_module("toolcrib.library.functions"))
    assert any(each.examples for each in found)
