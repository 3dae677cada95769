"""Words found again by a misspelling, at the limits of what is tried."""

from itertools import product

import pytest

from toolcrib.search.postings import Lexicon


def is_one_edit(one: str, other: str) -> bool:
    """Return whether a letter added, lost, replaced or swapped with its neighbour makes one word the other."""
    edits = {one}
    for place in range(len(one) + 1):
        edits.add(one[:place] + one[place + 1 :])
        edits.add(one[:place] + one[place : place + 2][::-1] + one[place + 2 :])
        for letter in "abx":
            edits |= {one[:place] + letter + one[place:], one[:place] + letter + one[place + 1 :]}
    return other in edits


def test_of_all_short_words_exactly_those_one_edit_away_are_near():
    words = ["a" + "".join(rest) for length in (3, 4) for rest in product("abx", repeat=length)]
    lexicon = Lexicon(words)
    for word in words[::5]:
        assert lexicon.near(word) == sorted(each for each in words if is_one_edit(word, each)), word


@pytest.mark.parametrize(("word", "wrong"), [("abcd", "abxd"), ("abcd", "abcde"), ("a" * 39 + "b", "a" * 39 + "c")])
def test_words_of_four_to_forty_letters_are_found(word: str, wrong: str):
    assert Lexicon([word]).near(wrong) == [word]


@pytest.mark.parametrize(
    ("word", "wrong"),
    [("abc", "abcd"), ("abcd", "abd"), ("a" * 40 + "b", "a" * 40), ("a" * 40, "a" * 40 + "b"), ("1234", "1235")],
)
def test_shorter_and_longer_ones_and_numbers_are_not(word: str, wrong: str):
    assert Lexicon([word]).near(wrong) == []


def test_another_first_letter_takes_six_letters():
    assert Lexicon(["abcdef"]).near("xbcdef") == ["abcdef"]
    assert Lexicon(["abcde"]).near("xbcde") == []
    assert Lexicon(["abcdef"]).near("bcdef") == []
    assert Lexicon(["bcdef"]).near("abcdef") == ["bcdef"]


def test_with_the_same_first_letter_the_others_do_not_count():
    assert Lexicon(["xbcdef", "abcdex"]).near("abcdef") == ["abcdex"]


def test_a_word_is_near_itself_and_given_once():
    assert Lexicon(["aabbcc", "aabbcc"]).near("aabbcc") == ["aabbcc"]
