"""Requests in other languages become English ones, English requests stay as they are."""

from collections import Counter
from importlib.resources import files

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib.base.text import QUERY_MAX, words
from toolcrib.search.english import read_synonyms, stem
from toolcrib.search.query import Knows, may_be_foreign, read_verbs
from toolcrib.search.translation import Dictionary, Translations, dictionary, read_dictionary

CATALOG = (
    "create list delete remove update issue ticket branch file directory database backup restore pull request merge "
    "message channel event calendar image page form fill die agenda server red network note tag commit history"
)
DICTIONARY = read_dictionary()


def test_what_ships_with_the_package_is_read_once_in_a_process():
    assert read_dictionary() is DICTIONARY
    assert read_verbs(stem) is read_verbs(stem)
    assert read_synonyms(stem) is read_synonyms(stem)


def known(catalog: str = CATALOG) -> Knows:
    stems = {stem(word) for word in words(catalog)}
    return lambda word: stem(word) in stems


def english(request: str, catalog: str = CATALOG) -> str:
    return " ".join(Translations(lambda: DICTIONARY).in_english(request, known(catalog)).split())


def unread() -> Dictionary:
    raise AssertionError("the dictionary was read")


class TestOtherLanguages:
    @pytest.mark.parametrize(
        ("request_", "meant"),
        [
            ("Datenbank sichern", "database backup"),
            ("crear una rama", "create branch"),
            ("supprimer le fichier", "delete file"),
            ("excluir o arquivo", "delete file"),
            ("删除分支", "delete branch"),
            ("ブランチを削除する", "branch delete"),
        ],
    )
    def test_a_request_is_put_into_english(self, request_: str, meant: str):
        assert english(request_) == meant

    @pytest.mark.parametrize(
        ("request_", "meant"),
        [
            ("lösche die Dateien", "delete file"),
            ("wurde die Datei gelöscht", "file delete"),
            ("borrando los archivos", "delete file"),
            ("les fichiers supprimés", "file delete"),
            ("apagadas as mensagens", "delete message"),
            ("ファイルを消して", "file delete"),
        ],
    )
    def test_words_are_known_in_other_forms(self, request_: str, meant: str):
        assert english(request_) == meant

    @pytest.mark.parametrize(
        ("request_", "meant"),
        [
            ("die Datenbanksicherung", "database backup"),
            ("Kalenderdatei", "calendar file"),
            ("restaurer la base de données", "restore database"),
            ("la demande de fusion", "pull request"),
            ("remplir l'image d'une page", "fill image page"),
        ],
    )
    def test_compounds_phrases_and_elisions_are_taken_apart(self, request_: str, meant: str):
        assert english(request_) == meant

    def test_of_several_ways_to_say_it_the_one_that_is_searched_for_counts(self):
        assert english("Termin löschen", "remove appointment") == "appointment remove"
        assert english("Termin löschen", "erase meeting") == "meeting delete"

    def test_names_numbers_and_marks_stay(self):
        assert english('lösche die Datei "kafka_v2.yml" (Müller)') == 'delete file "kafka_v2.yml" (Müller)'

    def test_the_longest_words_of_an_unspaced_writing_are_taken(self):
        assert english("数据库备份", "database backup data") == "database backup"
        assert english("請求書", "invoice request") == "invoice"

    def test_characters_in_no_dictionary_stay_and_grammar_goes(self):
        assert english("東京のブランチ") == "東京 branch"

    def test_a_catalog_in_the_requests_language_is_still_found_by_its_own_words(self):
        assert english("Rechnung löschen", "Rechnung löschen") == "Rechnung löschen"
        assert english("删除分支", "删除分支") == "删除分支"
        assert english("Rechnung löschen", "Rechnung delete") == "rechnung delete"

    def test_lines_and_capitals_make_no_difference(self):
        assert english("DATENBANK SICHERN!") == "database backup!"


class TestEnglish:
    @pytest.mark.parametrize(
        "request_",
        [
            "create an issue",
            "let the server die",
            "agenda",
            "agenda for the server",
            "die",
            "red tag note",
            "open the Rechnung",
            "kubernetes ingress",
            "xyzzy",
            "list files in la paz",
            "incident-com",
            "fehler in the log",
            "",
            "???",
        ],
    )
    def test_an_english_request_stays_byte_for_byte(self, request_: str):
        assert Translations(lambda: DICTIONARY).in_english(request_, known()) == request_

    @pytest.mark.parametrize("request_", ["create an issue", "what is on the xyzzy", "delete branch", "", "123 !"])
    def test_it_costs_no_dictionary_where_most_words_are_known_or_english(self, request_: str):
        translations = Translations(unread)
        assert not may_be_foreign(request_, known())
        assert translations.in_english(request_, known()) == request_

    def test_words_of_the_renderings_are_no_sign_of_another_language(self):
        everything = " ".join(sorted(DICTIONARY.english))
        assert english(everything, "") == everything


class TestReading:
    def test_it_is_read_once_and_only_when_it_is_needed(self):
        read: list[int] = []

        def counted() -> Dictionary:
            read.append(1)
            return DICTIONARY

        translations = Translations(counted)
        assert may_be_foreign("Datenbank sichern", known())
        assert not translations.is_loaded
        translations.in_english("Datenbank sichern", known())
        assert translations.is_loaded
        translations.in_english("crear una rama", known())
        assert read == [1]

    def test_the_first_of_two_entries_that_are_alike_holds(self):
        both = dictionary(["one | wort |  |  |  | 字 | ", "two | wort |  |  |  | 字 | "])
        assert both.spaced[0].rendering("wort") == ("one",)
        assert [*both.chinese.split("字")] == [("字", ("one",))]


class TestTheFile:
    LINES = (files("toolcrib.search") / "translations.txt").read_text(encoding="utf-8").splitlines()
    CONCEPTS = tuple(line for line in LINES if line and line[0] not in "#[=")

    def test_every_concept_has_an_english_word_and_one_in_each_language(self):
        columns = [[column.strip() for column in line.split("|")] for line in self.CONCEPTS]
        assert {len(each) for each in columns} == {7}
        meaning = [each for each in columns if each[0]]
        assert len(meaning) >= 300
        assert [each for each in meaning if not all(each)] == []

    def test_no_concept_stands_in_two_lines(self):
        meant = Counter(line.split("|")[0].strip() for line in self.CONCEPTS)
        assert [each for each, count in meant.items() if each and count > 1] == []

    def test_no_entry_is_too_long_to_be_found(self):
        entries = [entry for line in self.CONCEPTS for entry in line.split("|")[1:5] for entry in entry.split(",")]
        assert [entry for entry in entries if len(words(entry)) > 4] == []


PIECES = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        "Datenbank lösche crear l'équipe arquivo 删除 ブランチを the \n ' _ ge s 請 𠮷 \ud800 ﾃﾞ ß İ".split(" ")
    ),
)


@given(pieces=st.lists(PIECES, max_size=30), catalog=st.sampled_from(["", CATALOG, "删除 rama Datenbank"]))
@example(pieces=["gegege" * 400], catalog="")
@example(pieces=["表" * 3000], catalog="")
@example(pieces=["lösche " * 400], catalog="")
def test_any_text_has_one_bounded_answer(pieces: list[str], catalog: str):
    request = " ".join(pieces)
    asked: list[str] = []

    def counting(word: str) -> bool:
        asked.append(word)
        return known(catalog)(word)

    first = Translations(lambda: DICTIONARY).in_english(request, counting)
    assert first == Translations(lambda: DICTIONARY).in_english(request, known(catalog))
    longest = max(map(len, DICTIONARY.english)) * 4
    assert first == request or len(first) <= (len(request[:QUERY_MAX]) + 1) * longest
    assert len(asked) <= 20 * QUERY_MAX
