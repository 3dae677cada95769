"""What a caller may see, and every way to name one of it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skill_builders import SKILL

from toolcrib.base.model import Skill
from toolcrib.skills.visible import VisibleSkills


def skill(row: int, name: str, source: str = "repo", folder: str = "", content: str = "") -> Skill:
    place = folder or name
    return replace(
        SKILL, row=row, id=f"sk_{row}", name=name, source=source, folder=place, content_hash=content or str(row)
    )


REPO_PDF = skill(1, "pdf-forms", "repo", "docs/pdf-forms", "same")
USER_PDF = skill(2, "pdf-forms", "user", content="same")
PACK_PDF = skill(3, "pdf-forms", "pack/office", content="another")
REVIEW = skill(4, "Code Review", "repo", "review")
REVIEW_AGAIN = skill(5, "code_review", "repo", "old/review")
SHELF = VisibleSkills([REPO_PDF, REVIEW, REVIEW_AGAIN, USER_PDF, PACK_PDF], generation=7)


def test_a_skill_found_twice_with_the_same_text_is_listed_once():
    assert SHELF.everything == (REPO_PDF, REVIEW, REVIEW_AGAIN, USER_PDF, PACK_PDF)
    assert SHELF.skills == (REPO_PDF, REVIEW, REVIEW_AGAIN, PACK_PDF)
    assert SHELF.number(USER_PDF) == SHELF.number(REPO_PDF) == 0
    assert SHELF.names == ("Code Review", "code_review", "pdf-forms")
    assert SHELF.generation == 7


@pytest.mark.parametrize(
    ("spelling", "found"),
    [
        ("pdf-forms", (REPO_PDF, PACK_PDF)),
        ("$pdf-forms", (REPO_PDF, PACK_PDF)),
        (" PDF forms ", (REPO_PDF, PACK_PDF)),
        ("repo/pdf-forms", (REPO_PDF,)),
        ("repo/docs/pdf-forms", (REPO_PDF,)),
        ("user/pdf-forms", (USER_PDF,)),
        ("$pack/office/pdf-forms", (PACK_PDF,)),
        ("sk_2", (USER_PDF,)),
        ("Code Review", (REVIEW,)),
        ("code_review", (REVIEW_AGAIN,)),
        ("CODE-REVIEW", (REVIEW, REVIEW_AGAIN)),
        ("repo/review", (REVIEW,)),
        ("pdf", ()),
        ("REPO/pdf-forms", ()),
        ("", ()),
        ("$", ()),
        ("!?", ()),
    ],
)
def test_every_spelling_names_what_it_should(spelling: str, found: tuple[Skill, ...]):
    assert SHELF.named(spelling) == found


def test_the_skill_of_a_pack_is_also_known_by_what_follows_the_name_of_the_pack():
    mine, other = skill(1, "pack.core.fill", "pack/core", "fill"), skill(2, "fill-in", "repo")
    assert VisibleSkills([mine, other]).named("fill") == (mine,)
    assert VisibleSkills([mine, skill(3, "fill", "user")]).named("fill") == (skill(3, "fill", "user"),)


def test_a_name_that_looks_like_a_place_does_not_take_it():
    visible = VisibleSkills([skill(1, "repo/pdf", "user", "evil"), skill(2, "pdf", "repo")])
    assert [each.row for each in visible.named("repo/pdf")] == [2]


def test_segments_of_a_uri_lead_to_one_skill():
    assert SHELF.at(("repo", "docs", "pdf-forms")) is REPO_PDF
    assert SHELF.at(("pack", "office", "pdf-forms")) is PACK_PDF
    assert SHELF.at(("repo", "pdf-forms")) is None
    assert SHELF.at(("repo", "docs/pdf-forms")) is None
    assert SHELF.at(()) is None


def test_a_skill_that_is_its_whole_source_has_the_place_of_the_source():
    lone = replace(SKILL, folder="", source="dir/pdf")
    assert VisibleSkills([lone]).at(("dir", "pdf")) is lone


def test_the_shortest_spelling_that_only_one_skill_has_is_told():
    assert SHELF.spelling(REVIEW) == "Code Review"
    assert SHELF.spelling(REPO_PDF) == "repo/pdf-forms"
    assert SHELF.spelling(USER_PDF) == "user/pdf-forms"
    twins = [skill(1, "x", folder="a/x"), skill(2, "x", folder="b/x")]
    assert [VisibleSkills(twins).spelling(each) for each in twins] == ["repo/a/x", "repo/b/x"]


def test_names_are_found_by_how_they_begin():
    assert list(SHELF.beginning("PDF f")) == [REPO_PDF, PACK_PDF]
    assert list(SHELF.beginning("code")) == [REVIEW, REVIEW_AGAIN]
    assert list(SHELF.beginning("zebra")) == []


names = st.text("ab-_ /$", max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(names, st.sampled_from(["repo", "user", "dir/a"]), st.booleans()), max_size=6))
def test_the_spelling_of_any_skill_names_it_and_nothing_else(rows):
    skills = [
        skill(row, name, source, f"f{row}", "same" if is_copy else "")
        for row, (name, source, is_copy) in enumerate(rows)
    ]
    visible = VisibleSkills(skills)
    assert {visible.number(each) for each in visible.everything} == set(range(len(visible.skills)))
    for each in skills:
        assert visible.named(visible.spelling(each)) == (each,)


PLUGIN = skill(6, "superpowers:test-driven", "user")
FINDER = skill(7, "pack.core.find-the-right-tool", "pack/core", "find-the-right-tool")
NAMED = VisibleSkills([*SHELF.everything, PLUGIN, FINDER, skill(8, "pdf", "user")])


@pytest.mark.parametrize(
    ("missed", "near"),
    [
        ("anthropic:code review", ("Code Review", "code_review")),
        ("elsewhere/pdf", ("pdf",)),
        ("$office:pdf-forms", ("repo/pdf-forms", "pack/office/pdf-forms")),
        ("test-driven", ("superpowers:test-driven",)),
        ("powers:test-driven", ("superpowers:test-driven",)),
        ("superpowers:test-drivne", ("superpowers:test-driven",)),
        ("find-the-rigth-tool", ("pack.core.find-the-right-tool",)),
        ("pack.core.find-the-right-tol", ("pack.core.find-the-right-tool",)),
        ("core:find_the_right_tools", ("pack.core.find-the-right-tool",)),
        ("skill://user/pdff/SKILL.md", ("pdf",)),
        ("skill://elsewhere/pdf", ("pdf",)),
        ("pfd", ("pdf",)),
        ("pd", ()),
        ("pdf-farm", ()),
        ("", ()),
        (":", ()),
        ("/" * 1000, ()),
        ("p" * 100_000, ()),
    ],
)
def test_a_name_that_is_not_there_brings_those_that_may_be_meant(missed: str, near: tuple[str, ...]):
    assert NAMED.find(missed) == ()
    assert NAMED.near(missed) == near
    assert NAMED.resolve([missed]).near == ({missed: near} if near else {})


@given(st.data())
def test_any_one_slip_in_a_name_brings_it(data: st.DataObject):
    meant = data.draw(st.sampled_from(["Code Review", "superpowers:test-driven", "pack.core.find-the-right-tool"]))
    place = data.draw(st.integers(0, len(meant) - 1))
    letter = data.draw(st.sampled_from(["", "x", "7"]))
    slipped = data.draw(
        st.sampled_from(
            [
                meant[:place] + letter + meant[place + 1 :],
                meant[:place] + letter + meant[place:],
                meant[:place] + meant[place : place + 2][::-1] + meant[place + 2 :],
            ]
        )
    )
    assert meant in {each.name for each in NAMED.find(slipped)} | set(NAMED.near(slipped))


def test_a_name_that_may_not_be_told_is_not_suggested():
    assert NAMED.near("pfd", lambda _skill, text: text.replace("pdf", "another tool")) == ()
    assert NAMED.near("office:pdf-forms", lambda _skill, text: text.replace("pack", "…")) == ("repo/pdf-forms",)
