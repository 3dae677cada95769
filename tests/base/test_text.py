"""Text of strangers: words, search terms, what is hidden in it, and where it is cut."""

import json
import re
import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.text import (
    QUERY_MAX,
    STOP_WORDS,
    SearchTexts,
    counted_words,
    enumerated,
    escaped,
    estimate_tokens,
    glob_matcher,
    glob_may_begin,
    marked,
    one_line,
    query_terms,
    sanitize,
    search_text,
    spelling_key,
    split_summary,
    truncate,
    words,
)

ANY_TEXT = st.text() | st.text(st.characters(categories=["Cs", "Cc", "Cf", "Lu", "Ll", "Nd"]))
UNDRAWN = "".join(
    map(
        chr,
        (
            *range(0xFE00, 0xFE10),  # variation selectors
            *range(0xE0100, 0xE01F0),
            *range(0x180B, 0x1810),
            *(0x115F, 0x1160, 0x3164, 0xFFA0),  # fillers of Hangul
            *(0x034F, 0x17B4, 0x17B5, 0x16FE4, 0x2800, 0x1D159),
        ),
    )
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("create_issue", ["create", "issue"]),
        ("createIssue", ["create", "issue"]),
        ("CreateIssue", ["create", "issue"]),
        ("create-issue.now", ["create", "issue", "now"]),
        ("HTTPServer", ["http", "server"]),
        ("getHTTPResponse2", ["get", "http", "response", "2"]),
        ("v2Beta10", ["v", "2", "beta", "10"]),
        ("S3", ["s", "3"]),
        ("  a  b ", ["a", "b"]),
        ("", []),
        ("__--..", []),
        ("naïveCase", ["naive", "case"]),
        ("datei_öffnen3x", ["datei", "offnen", "3", "x"]),
        ("ＡＢＣ", ["abc"]),
        ("Straße ÉCOLE", ["strasse", "ecole"]),
        ("Ёлка ёлка", ["елка", "елка"]),
        ("東京 2020", ["東京", "2020"]),
        ("创建新问题", ["创建", "建新", "新问", "问题"]),
        ("请帮我创建issue", ["创建", "issue"]),
        ("的", ["的"]),
        ("ファイル", ["ファ", "ァイ", "イル"]),
        ("파일 삭제하기", ["파일", "삭제", "제하", "하기"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
    ],
)
def test_identifiers_are_split_into_words(text: str, expected: list[str]):
    assert words(text) == expected


@given(ANY_TEXT)
def test_words_are_lower_case_letters_and_digits(text: str):
    for word in words(text):
        assert word
        assert word == word.lower()
        assert not any(char.isspace() or char == "_" for char in word)


@given(st.text(st.characters(codec="ascii")))
def test_a_text_with_and_without_other_letters_is_split_alike(text: str):
    assert words(text) == words(text + " é")[:-1]


@given(ANY_TEXT | st.text("aBC1_ .\n\u2028\u0301é中", max_size=60))
def test_words_are_counted_as_they_are_found(text: str):
    assert counted_words(text) == Counter(word for line in text.splitlines() for word in words(line))


@given(ANY_TEXT)
def test_search_text_is_the_words(text: str):
    assert search_text(text) == " ".join(words(text))
    if text.isascii():
        assert spelling_key(text) == "".join(words(text))


@given(st.lists(ANY_TEXT | st.text("aB1 _\n\u1680\u0301é中", max_size=60), max_size=3))
def test_search_texts_of_many_texts_are_those_of_each(texts: list[str]):
    many = SearchTexts()
    assert [many.compute(text) for text in (*texts, *texts)] == [search_text(text) for text in (*texts, *texts)]


def test_every_spelling_of_a_name_is_joined_to_one():
    spellings = ["createIssue", "create_issue", "CREATE ISSUE", "create-Issue", "Create.Issue"]
    assert {spelling_key(spelling) for spelling in spellings} == {"createissue"}
    assert spelling_key("创建_问题") == spelling_key("创建问题") == "创建问题"


def test_terms_of_a_query_are_its_words_that_carry_meaning_once_and_in_order():
    assert query_terms("Please create the issue, and create an Issue") == ["create", "issue"]


def test_a_query_of_nothing_but_small_words_keeps_them():
    assert query_terms("what is it for") == ["what", "is", "it", "for"]
    assert {"what", "is", "it", "for"} <= STOP_WORDS


def test_only_the_beginning_of_a_long_query_counts():
    assert query_terms("x" * QUERY_MAX + " tail") == ["x" * QUERY_MAX]


@pytest.mark.parametrize(
    "hidden",
    [
        "\x00",
        "\x07",
        "\x1b",
        "\x7f",
        "\x9b",
        "\r",
        "\u200b",
        "\u200e",
        "\u202e",
        "\u2066",
        "\ufeff",
        "\U000e0041",
        "\ud800",
        *UNDRAWN,
    ],
)
def test_characters_that_hide_or_steer_are_taken_out(hidden: str):
    assert sanitize(f"a{hidden}b") == "ab"
    assert one_line(f" a {hidden} b ") == "a b"


def test_what_a_person_can_see_stays():
    seen = "Grüße, 東京! \u00a0 \n\t \U0001f600 e\u0301 ½ — “x”"
    assert sanitize(seen) == marked(seen) == seen


@pytest.mark.parametrize("symbol", ["\u26a0", "\u2194", "\u203c", "\u2139", "1\u20e3", "#\u20e3"])
def test_what_makes_an_emoji_of_a_symbol_stays(symbol: str):
    seen = f"{symbol[0]}\ufe0f{symbol[1:]}"
    assert sanitize(f"{seen} or {seen}{seen}") == marked(f"{seen} or {seen}{seen}") == f"{seen} or {seen}{seen}"
    # There it hides nothing, but a second one does.
    assert sanitize(f"{seen}\ufe0f\ufe0f!") == f"{seen}!"


@pytest.mark.parametrize("before", ["", "a", "7", "#", " ", "!", "<", "é", "\u2800", "\u200b", "東"])
def test_the_same_selector_stays_after_nothing_else(before: str):
    assert sanitize(f"{before}\ufe0f") == sanitize(before)
    assert sanitize(f"x \u26a0\ufe0f {before}\ufe0f") == f"x \u26a0\ufe0f {sanitize(before)}"


WRITTEN_WITH_JOINERS = (
    # Persian: prefixes and endings, also of foreign words and numbers, an abbreviation; Kurdish: ends of words.
    *(
        "می\u200cخواهم",
        "یادداشت\u200cها",
        "هر\u200cگونه",
        "خانه\u200cٔ",
        "PDF\u200cها",
        "۲۰\u200cام",
        "«کتاب»\u200cها",
        "ه\u200d.ش",
    ),
    *("ئه\u200cو", "که\u200c", "بۆ ئه\u200c."),
    # Hindi, Marathi, Bengali, Malayalam, Kannada, Sinhala, Burmese, Khmer.
    *("क्\u200dष", "र्\u200dया", "क्\u200cष", "अब्\u200d ", "র\u200d্য", "ন্\u200cত", "ന്\u200d", "ಸಾಫ್ಟ್\u200cವೇರ್"),
    *("ශ්\u200dරී", "ကျွန်\u200cတော်", "ប\u200cក់"),
    # Adlam, Rohingya, Mongolian, Syriac.
    *("\U0001e907\u200d", "\U0001e922\u200c\U0001e923", "\U00010d00\u200d\U00010d01", "ᠠ\u200d", "ܐ\u200cܒ"),
    # Families, professions with and without a skin tone, hair, flags, and what has U+FE0F before it or after it.
    *("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f9d1\u200d\U0001f4bb"),
    *(
        "\U0001f9d1\U0001f3fd\u200d\U0001f4bb",
        "\U0001f469\U0001f3ff\u200d\U0001f9b0",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
    ),
    *(
        "\U0001f3f4\u200d\u2620\ufe0f",
        "\u2764\ufe0f\u200d\U0001f525",
        "\U0001f642\u200d\u2194\ufe0f",
        "\U0001f43b\u200d\u2744\ufe0f",
    ),
    *(
        "\U0001f3cb\U0001f3fb\u200d\u2640\ufe0f",
        "\U0001f441\ufe0f\u200d\U0001f5e8\ufe0f",
        "\u26d3\ufe0f\u200d\U0001f4a5",
    ),
    "\U0001f9d1\U0001f3fb\u200d\u2764\ufe0f\u200d\U0001f48b\u200d\U0001f9d1\U0001f3ff",
)


@pytest.mark.parametrize("written", WRITTEN_WITH_JOINERS)
def test_joiners_stay_where_words_and_emoji_are_written_with_them(written: str):
    for text in (written, f"{written} x", f"({written})", f"{written}, {written}"):
        assert sanitize(text) == marked(text) == text
    # There they are seen by what they make of their neighbours; more of them would not be.
    for joiner in "\u200c\u200d":
        for more in (2, 9):
            clean = sanitize(re.sub("([\u200c\u200d])", rf"\1{joiner * more}", written))
            assert clean in (written, re.sub("[\u200c\u200d]", "", written))


@pytest.mark.parametrize(
    ("hiding", "seen"),
    [
        ("pay\u200cload a\u200db", "payload ab"),
        ("\u200cه \u200dه x \u200cه", "ه ه x ه"),
        ("1\u200c2 東\u200d京 가\u200c나 \u0e01\u200d\u0e02", "12 東京 가나 \u0e01\u0e02"),
        ("\u0661\u200d1", "\u06611"),
        ("a\u200dه", "aه"),
        ("a\u200d\U0001f469 \U0001f469\u200d \U0001f469\u200dx", "a\U0001f469 \U0001f469 \U0001f469x"),
        ("\U0001f469\u200c\U0001f469 \u2800\u200d\u2801", "\U0001f469\U0001f469 \u2801"),
        ("a\ufe0f\u200d\U0001f469", "a\U0001f469"),
        (
            "+\u200d+ >\u200d= |\u200d| \u2500\u200d\u2500 \u2192\u200d\u2192 \xa9\u200d\xae",
            "++ >= || \u2500\u2500 \u2192\u2192 \xa9\xae",
        ),
        ("a\u1ab0\u200dx \u118a0\u200c", "a\u1ab0x \u118a0"),
        ("م\u200b\u200cن م\ufe0f\u200cن \u180b\u200cن", "من من ن"),
        ("م\u202e\u200d\u200c\U000e0041ن", "من"),
        ("a\u200c\u200b\u200cb\n\u200c\n", "ab\n\n"),
    ],
)
def test_joiners_that_make_nothing_of_their_neighbours_are_taken_out(hiding: str, seen: str):
    assert sanitize(hiding) == seen
    assert re.sub(r"\[U\+[0-9A-F]+\]", "", marked(hiding)) == seen


@given(
    st.text(st.sampled_from("aم\u0928\u094d\u200c\u200d\ufe0f\u200b\U0001f469\U0001f3fb\u2764 1\u20e3\u180b+|\u2500"))
)
def test_what_stays_is_the_same_however_often_it_is_looked_at(text: str):
    clean = sanitize(text)
    assert sanitize(clean) == marked(clean) == clean
    assert re.sub(r"\[U\+[0-9A-F]+\]", "", marked(text)) == clean
    assert not re.search("[\u200c\u200d]{2}|(?:^|[a1 ])\u200d|(?:^| )\u200c", clean)
    # Nothing that is seen is lost.
    assert [each for each in clean if each in "aم\u0928\u094d\U0001f469\U0001f3fb\u2764 1\u20e3+|\u2500"] == [
        each for each in text if each not in "\u200c\u200d\ufe0f\u200b\u180b"
    ]


def test_words_are_found_with_and_without_their_joiners():
    assert words("پیام\u200cها") == ["پیام", "ها"]
    assert words("क्\u200dष क्\u200cष") == ["क्ष", "क्ष"]
    assert spelling_key("پیام\u200cها") == spelling_key("پیامها")


def test_hidden_characters_can_be_made_visible():
    assert marked("a\u200bb\U000e0041 \x07\u26a0\ufe0f\ufe0f\n") == "a[U+200B]b[U+E0041] [U+0007]\u26a0\ufe0f[U+FE0F]\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("safe.txt\u200b", r"safe.txt\u200b"),
        ("x\u202egnp.exe", r"x\u202egnp.exe"),
        ("a\u00a0b\u2003c\u3000d\u2028e\tf", r"a\u00a0b\u2003c\u3000d\u2028e\u0009f"),
        ("\U000e0041!", r"\udb40\udc41!"),
        ("lone \ud800", r"lone \ud800"),
        # Joiners and selectors too, where they belong to words and emoji: nobody sees which text has them.
        ("می\u200cخواهم", r"می\u200cخواهم"),
        ("\u2764\ufe0f \U0001f468\u200d\U0001f467", "\u2764\\ufe0f \U0001f468\\u200d\U0001f467"),
        # Marks that would be drawn onto what is before the text, onto a sign, or as a tower over other lines.
        ("\u0338a", r"\u0338a"),
        ("/\u0338", r"/\u0338"),
        ("Z" + "\u0301" * 6, "Z" + "\u0301" * 4 + r"\u0301\u0301"),
        ("a\u200b\u0301", r"a\u200b\u0301"),
        ("\u3164\u0335", r"\u3164\u0335"),
        ("1\ufe0f\u20e3", r"1\ufe0f\u20e3"),
        # What has no form of its own on a letter of another script.
        ("a\u17d2b\u1039", r"a\u17d2b\u1039"),
        # What looks like the end of a text of JSON.
        ("\u02ba,\uff02 \u2033 \uff3c", r"\u02ba,\uff02 \u2033 \uff3c"),
        (" " * 16 + "x" + " " * 17, " " * 16 + "x" + " " * 16 + r"\u0020"),
    ],
)
def test_what_may_deceive_a_person_is_shown_as_json_writes_it(text: str, shown: str):
    assert escaped(text) == shown


@pytest.mark.parametrize(
    "text", ["Grüße, 東京! e\u0301", "बोलियों में हिन्दी", "בְּרֵאשִׁ֖ית", "Tiếng Việt", "ที่นี่", "\U0001f600 ½ — “x”"]
)
def test_words_of_any_script_are_shown_as_they_are(text: str):
    assert escaped(text) == text
    assert escaped(unicodedata.normalize("NFD", text)) == unicodedata.normalize("NFD", text)


@given(ANY_TEXT)
def test_what_is_shown_as_json_is_that_text_and_has_nothing_to_hide(text: str):
    shown = escaped(json.dumps(text, ensure_ascii=False))
    assert json.loads(shown) == text
    assert shown.isprintable()
    assert sanitize(shown) == shown


@given(ANY_TEXT)
def test_nothing_hidden_is_left_and_nothing_else_is_lost(text: str):
    clean = sanitize(text)
    assert clean == sanitize(clean)
    assert not [char for char in clean if unicodedata.category(char).startswith("C") and char not in "\n\t\u200c\u200d"]
    kept = [char for char in text if char in "\n\t" or not unicodedata.category(char).startswith("C")]
    assert [each for each in clean if each not in f"{UNDRAWN}\u200c\u200d"] == [
        each for each in kept if each not in UNDRAWN
    ]
    line = one_line(text)
    assert line == " ".join(clean.split())
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("short", 5, "short"),
        ("short", 4, "sho…"),
        ("some words here", 12, "some words…"),
        ("some words, here", 13, "some words…"),
        ("averyverylongword indeed", 10, "averyvery…"),
        ("a bcdefghijk", 8, "a bcdef…"),
        ("ab", 1, "…"),
        ("", 0, ""),
    ],
)
def test_text_is_cut_at_a_word_where_one_is_near(text: str, limit: int, cut: str):
    assert truncate(text, limit) == cut


@given(st.text(), st.integers(1, 50))
def test_what_is_cut_fits_and_begins_as_the_whole_did(text: str, limit: int):
    cut = truncate(text, limit)
    assert len(cut) <= limit
    assert (cut == text) is (len(text) <= limit) or cut.endswith("…")
    assert text.startswith(cut.removesuffix("…") if cut != text else cut)


@pytest.mark.parametrize(
    ("text", "summary", "rest"),
    [
        ("Creates an issue.", "Creates an issue.", ""),
        ("Creates an issue. Needs a title.", "Creates an issue.", "Needs a title."),
        ("Creates an issue\n\nNeeds a title.", "Creates an issue", "Needs a title."),
        ("Options:\n- one\n- two", "Options:", "- one\n- two"),
        ("Uses v1.2 of the API. More.", "Uses v1.2 of the API.", "More."),
        ("作成します。 次に。", "作成します。", "次に。"),
        ("What? This!", "What?", "This!"),
        ("  \n ", "", ""),
        ("", "", ""),
    ],
)
def test_a_summary_is_the_first_sentence_or_paragraph(text: str, summary: str, rest: str):
    assert split_summary(text) == (summary, rest)


@given(st.text())
def test_summary_and_rest_have_all_the_letters(text: str):
    summary, rest = split_summary(text)
    assert "".join((summary + rest).split()) == "".join(text.split())


@pytest.mark.parametrize(("length", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (400, 100), (401, 101)])
def test_four_characters_are_a_token(length: int, tokens: int):
    assert estimate_tokens("x" * length) == tokens


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        ([], "x", False),
        (["*"], "anything", True),
        (["*"], "", True),
        (["a*"], "abc", True),
        (["a*"], "Abc", False),
        (["abc"], "abcd", False),
        (["bc"], "abc", False),
        (["a?c"], "abc", True),
        (["[ab]c", "x"], "bc", True),
        (["[!a]c"], "ac", False),
        (["a.c"], "abc", False),
        (["a|b"], "a", False),
        (["x", "a(b)+"], "a(b)+", True),
        (["a\n*"], "a\nb", True),
    ],
)
def test_globs_match_whole_names_case_sensitively(patterns: list[str], name: str, matches: bool):
    assert glob_matcher(patterns)(name) is matches


@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=20))
def test_any_text_can_be_a_glob_and_several_match_as_each_alone(patterns: list[str], name: str):
    assert glob_matcher(patterns)(name) is any(glob_matcher([pattern])(name) for pattern in patterns)


def test_a_glob_that_would_hang_a_careless_matcher_answers_at_once():
    assert not glob_matcher(["*a" * 30 + "b"])("a" * 200)


NAMES = st.text("ab_.", max_size=6)
GLOBS = st.text("ab_.*?[]!-", max_size=6)


@given(GLOBS, NAMES, st.integers(0, 6))
def test_a_glob_that_matches_a_name_may_begin_as_that_name_does(glob, name, end):
    if glob_matcher([glob])(name):
        assert glob_may_begin(glob, name[:end])


@pytest.mark.parametrize(
    ("glob", "may"),
    [("db.*", True), ("*", True), ("*drop", True), ("d?.x", True), ("db", False), ("dc.*", False), ("", False)],
)
def test_a_glob_may_match_a_name_with_this_beginning_or_cannot(glob, may):
    assert glob_may_begin(glob, "db.") is may


def test_names_are_enumerated_as_far_as_there_is_room():
    assert enumerated(["a", "b", "c"], 7) == "a, b, c"
    assert enumerated(["a", "b", "cc"], 7) == "3 in all"
    assert enumerated(["a", "b", "c", "d"], 13) == "a, b, c, d"
    assert enumerated(["aaaa", "bbbb", "cccc", "dddd"], 21) == "aaaa, bbbb and 2 more"
    assert enumerated(["a" * 50], 10) == "1 in all"
    assert enumerated([], 10) == ""
