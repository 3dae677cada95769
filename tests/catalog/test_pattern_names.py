"""A pattern finds the same tools however their names are looked through."""

from pathlib import Path

import pytest
from builders import listing, opened, record
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.search import documents

NAMES = ("create_issue", "list_files", "x", "search.all", "CreateFile", "a-b", "issue", "line\nbreak")
ATOMS = st.sampled_from(["create", "issue", "file", "s", ".", "_", r"\.", "[^a]", r"\s", r"\b", r"\B", "x", "-", "__"])
ENDS = st.sampled_from(["", "^", "$", r"\A", r"\z", "(?-m)", "|", "$|^"])


@given(parts=st.lists(st.tuples(ENDS, ATOMS, st.sampled_from(["", "*", "+", "?"])), min_size=1, max_size=4), end=ENDS)
def test_one_look_at_all_names_loses_no_match(parts: list[tuple[str, str, str]], end: str):
    expression = "".join("".join(part) for part in parts) + end
    pattern = documents.compile_pattern(expression, ignore_case=True)
    first_look = documents._over_lines(expression)
    for name in NAMES:
        names = (f"server__{name}", f"server.{name}", name)
        if first_look is not None and any(pattern.search(each) for each in names):
            assert first_look.search("\n".join(names))


@pytest.mark.parametrize("expression", ["^create", "issue$", "^issue$", r"\Aissue\z", "(?i)ISSUE", "server.issue"])
def test_the_first_look_changes_no_score(tmp_path: Path, expression: str, monkeypatch: pytest.MonkeyPatch):
    with opened(tmp_path / "tools.db") as world:
        world.listed(listing("server", *(record("server", name) for name in NAMES)))
        found = world.search(expression, "regex", include_always=True).matches
        monkeypatch.setattr(documents, "_over_lines", lambda _expression: None)
        assert found == world.search(expression, "regex", include_always=True).matches
        assert found
