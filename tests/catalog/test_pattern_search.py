"""Patterns of callers."""

import itertools
import sys

import pytest
from builders import ISSUES, listing, names, opened, record

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import SearchType


class TestRegex:
    def test_where_a_pattern_matches_decides_the_score(self, world, ask):
        world.listed(
            listing(
                "s",
                record("s", "paint"),
                record("s", "painter"),
                record("s", "repaint"),
                record("s", "described", "It can paint."),
                record("s", "tagged", tags=["paint"]),
                record("s", "unrelated"),
            )
        )
        result = ask(world, "paint", "regex", limit=20)
        assert {match.document.name: match.score for match in result.matches} == {
            "paint": 0.95,
            "painter": 0.90,
            "repaint": 0.85,
            "described": 0.75,
            "tagged": 0.75,
        }
        assert {match.match_type for match in result.matches} == {SearchType.REGEX}
        assert result.confidence == "high"

    @pytest.mark.parametrize(
        "pattern", ["github\\.\\w+", "^GITHUB__LIST_ISSUES$", "list_issues", "github.list_(issues|x)"]
    )
    def test_a_pattern_is_tried_on_each_spelling_in_any_case(self, world, ask, pattern):
        world.listed(ISSUES)
        assert ask(world, pattern, "regex", limit=1).matches[0].score == 0.95

    def test_a_match_in_a_text_only_is_less_certain(self, world, ask):
        world.listed(ISSUES)
        assert ask(world, "^Merges", "regex").confidence == "low"
        assert ask(world, "^vcs$", "regex").confidence == "low"

    def test_texts_are_not_looked_at_beyond_1000_characters(self, world, ask):
        world.listed(listing("s", record("s", "x", "y" * 1000 + "needle")))
        result = ask(world, "needle", "regex")
        assert (result.matches, result.confidence) == ((), "none")
        assert "No name, description or tag" in result.note

    def test_texts_follow_the_catalog(self, world, ask):
        world.listed(listing("s", record("s", "x", "Paints.")))
        assert names(ask(world, "paints", "regex")) == ["s__x"]
        world.listed(listing("s", record("s", "x", "Cuts.")))
        assert names(ask(world, "paints", "regex")) == []

    @pytest.mark.sampled
    @pytest.mark.parametrize("pattern", ["[", "(", "*", "(?=x)", "\\1", "(((a{100}){100}){100}){100}", "\ud800"])
    def test_a_pattern_that_cannot_be_used_is_a_bad_request(self, world, ask, pattern):
        world.listed(ISSUES)
        with pytest.raises(BadRequest, match="RE2"):
            ask(world, pattern, "regex")

    def test_a_long_pattern_is_a_bad_request(self, world, ask):
        world.listed(ISSUES)
        assert ask(world, "x" * 256, "regex").matches == ()
        with pytest.raises(BadRequest, match="257 characters"):
            ask(world, "x" * 257, "regex")

    @pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(.*a){20}$", "(?:x+x+)+y", "(a?){30}a{30}"])
    def test_hostile_patterns_end(self, world, ask, pattern):
        world.listed(listing("s", *(record("s", f"t{number}", "a" * 900 + "!") for number in range(10))))
        ask(world, pattern, "regex")

    @pytest.mark.parametrize("slow_step", [1, 4])
    def test_a_slow_pattern_is_a_bad_request(self, path, slow_step):
        ticks = itertools.count()
        with opened(path, regex_ms=50, clock=lambda: 0.0 if next(ticks) < slow_step else 1.0) as world:
            world.listed(listing("s", record("s", "x", "Paints."), record("s", "y")))
            with pytest.raises(BadRequest, match="longer than 50 ms"):
                world.search("zebra", "regex")

    def test_loading_re2_is_not_held_against_the_first_pattern(self, path, monkeypatch):
        monkeypatch.delitem(sys.modules, "re2", raising=False)
        with opened(path, regex_ms=50, clock=lambda: 9.0 if "re2" in sys.modules else 0.0) as world:
            world.listed(listing("s", record("s", "x", "Paints.")))
            assert world.names("paints", "regex") == ["s__x"]

    def test_reading_the_texts_is_not_held_against_the_pattern(self, path):
        times = itertools.chain([0.0, 0.0, 0.0], itertools.repeat(9.0))  # start, one name, before reading
        with opened(path, regex_ms=50, clock=lambda: next(times)) as world:
            world.listed(listing("s", record("s", "x", "Paints.")))
            assert world.names("paints", "regex") == ["s__x"]
