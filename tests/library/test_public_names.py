import subprocess
import sys
from pathlib import Path

import pytest

import toolcrib

RECORDED = Path(__file__).with_name("public_names.txt")


def in_new_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_what_a_program_may_import_is_what_was_recorded():
    # Whoever takes a name out of the list breaks programs: it is announced in CHANGELOG.md one release before.
    assert "\n".join(toolcrib.__all__) + "\n" == RECORDED.read_text(encoding="utf-8")


def test_public_names_are_sorted_and_each_can_be_imported():
    assert list(toolcrib.__all__) == sorted(toolcrib.__all__)
    for name in toolcrib.__all__:
        value = getattr(toolcrib, name)
        if isinstance(value, type):
            assert value.__name__ == name
            assert value.__doc__


def test_importing_toolcrib_loads_nothing_of_it():
    loaded = in_new_process(
        "import sys; before = set(sys.modules); import toolcrib; print(*sys.modules.keys() - before)"
    )
    assert loaded == "toolcrib"


def test_a_public_name_is_loaded_when_it_is_first_used_and_the_same_afterwards():
    code = (
        "import sys, toolcrib; names = lambda: 'toolcrib.library.hits' in sys.modules; print(names(),"
        "toolcrib.ToolHit is toolcrib.ToolHit, names(), 'ToolHit' in dir(toolcrib), 'mcp' in sys.modules)"
    )
    assert in_new_process(code) == "False True True True False"


def test_a_name_that_is_not_there_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="module 'toolcrib' has no attribute 'ToolSerch'"):
        toolcrib.ToolSerch  # noqa: B018


def test_every_public_error_is_a_toolcrib_error():
    values = [getattr(toolcrib, name) for name in toolcrib.__all__]
    errors = [each for each in values if isinstance(each, type) and issubclass(each, Exception)]
    assert len(errors) > 10
    assert all(issubclass(each, toolcrib.ToolcribError) for each in errors)
