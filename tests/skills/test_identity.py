"""Slugs, ids, URIs and hashes are the same on every run, and no spelling of a URI climbs out of its folder."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from toolcrib.base.model import SkillScope, SkillText, TaskType, ToolNote
from toolcrib.skills.identity import SLUG_MAX, content_hash, parse_uri, skill_id, skill_uri, slug

TEXT = SkillText(
    name="tidy",
    title="Tidy",
    description="Tidies.",
    trigger="tidy up",
    task_type=TaskType.CODE,
    tags=("a",),
    steps=("one", "two"),
    preconditions=(),
    failure_modes=(),
    tools=(ToolNote("git", "log only"),),
    requires=(),
    body="# Tidy",
    frontmatter={"name": "tidy", "n": float("nan")},
    extra={"version": "1", "deep": {"b": 1, "a": 2}},
    is_hidden=False,
    content_hash="",
)
_segments = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/\\"), min_size=1, max_size=12)
_names = _segments.filter(lambda text: text not in (".", ".."))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pdf-forms", "pdf-forms"),
        ("Fill PDF  Forms!", "fill-pdf-forms"),
        ("pack.core.browser_auth", "pack-core-browser-auth"),
        ("Crème brûlée", "creme-brulee"),
        ("--a--", "a"),
        ("x" * 63 + " y", "x" * 63),
    ],
)
def test_a_slug_keeps_letters_and_digits(text: str, expected: str):
    assert slug(text) == expected


def test_texts_without_latin_letters_have_different_slugs():
    assert slug("数据") != slug("资料")
    assert slug("数据").startswith("skill-")


@given(st.text(max_size=100))
def test_every_slug_is_a_legal_name_and_its_own_slug(text: str):
    made = slug(text)
    assert 0 < len(made) <= SLUG_MAX
    assert all(part.isascii() and part.isalnum() and part == part.lower() for part in made.split("-"))
    assert slug(made) == made


def test_an_id_says_nothing_and_depends_on_scope_root_and_place():
    scope = SkillScope("project", "t", "p")
    made = {
        skill_id(scope, "root", "a"),
        skill_id(scope, "root", "b"),
        skill_id(scope, "other", "a"),
        skill_id(SkillScope("tenant", "t", "p"), "root", "a"),
        skill_id(SkillScope("project", "t", None), "root", "a"),
        skill_id(SkillScope("project", None, "t"), "root", "a"),
    }
    assert len(made) == 6
    assert all(len(each) == 19 and each.startswith("sk_") for each in made)
    assert skill_id(scope, "root", "a") == skill_id(SkillScope("project", "t", "p"), "root", "a")


def test_a_hash_does_not_depend_on_the_order_of_keys_or_on_an_older_hash():
    other = replace(TEXT, extra={"deep": {"a": 2, "b": 1}, "version": "1"}, content_hash="f" * 64)
    assert content_hash(TEXT) == content_hash(other)
    assert len(content_hash(TEXT)) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"body": "# Tidy."},
        {"tools": (ToolNote("git", "all"),)},
        {"steps": ("one two",)},
        {"frontmatter": {"name": "tidy"}},
        {"is_hidden": True},
        {"title": "\ud800"},
    ],
)
def test_any_change_of_what_is_said_changes_the_hash(change: dict[str, object]):
    assert content_hash(replace(TEXT, **change)) != content_hash(TEXT)


def test_a_uri_names_source_folder_and_file():
    assert skill_uri("repo", "pdf-forms") == "skill://repo/pdf-forms/SKILL.md"
    assert skill_uri("dir/team a", "docs/é", "a b/%.md") == "skill://dir/team%20a/docs/%C3%A9/a%20b/%25.md"
    assert skill_uri("repo", "", "SKILL.md") == "skill://repo/SKILL.md"
    assert skill_uri("repo", "pdf", "") == "skill://repo/pdf"


@given_settings(max_examples=50)
@given(st.lists(_names, min_size=1, max_size=4), st.lists(_names, min_size=1, max_size=3))
def test_every_uri_is_read_back(folder: list[str], file: list[str]):
    uri = skill_uri("dir/x", "/".join(folder), "/".join(file))
    assert uri.isascii()
    assert parse_uri(uri) == ("dir", "x", *folder, *file)


def test_a_uri_is_decoded_once():
    assert parse_uri("SKILL://repo/%252e%252e/a") == ("repo", "%2e%2e", "a")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "repo/a",
        "file:///etc/passwd",
        "skill:/repo/a",
        "skill://",
        "skill:///a",
        "skill://repo//a",
        "skill://repo/a/",
        "skill://repo/../a",
        "skill://repo/./a",
        "skill://repo/%2e%2E/a",
        "skill://repo/.%2e/a",
        "skill://repo/a%2Fb",
        "skill://repo/a%5cb",
        "skill://repo/a\\b",
        "skill://repo/a%00",
        "skill://repo/a\x00",
        "skill://repo/a%0a",
        "skill://repo/a%C2%85",
        "skill://repo/a b",
        "skill://repo/a%",
        "skill://repo/a%zz",
        "skill://repo/%ff",
        "skill://repo/%ed%a0%80",
        "skill://repo/\ud800",
        "skill://repo/a?b",
        "skill://repo/a#b",
        "skill://repo/" + "a" * 256,
        "skill://repo/" + "a/" * 4096 + "a",
    ],
)
def test_a_uri_that_is_none_or_climbs_is_refused(uri: str):
    assert parse_uri(uri) is None


@given(st.text("sk:/il%.2eE0Ff\\\0a", max_size=30))
def test_no_segment_of_a_uri_is_ever_a_way_out(tail: str):
    for segment in parse_uri(f"skill://{tail}") or ():
        assert segment not in ("", ".", "..")
        assert not set(segment) & set("/\\\0")
