"""Requests in six languages find what is described in English, and the dictionary touches no English request."""

import pytest

from retrieval_data import Dataset, load
from retrieval_groups import SETS as ENGLISH
from retrieval_groups import Figures
from retrieval_languages import ALL, SETS, by_language, outcomes
from toolcrib.base.text import words
from toolcrib.search.english import stem
from toolcrib.search.query import Knows
from toolcrib.search.translation import Translations

LANGUAGES = ("german", "spanish", "french", "portuguese", "chinese", "japanese")
LEAST = 0.6


@pytest.fixture(scope="module")
def tools() -> Figures:
    return by_language(outcomes(load(SETS["tools"])))


@pytest.mark.sampled
@pytest.mark.parametrize("language", [ALL, *LANGUAGES])
def test_tools_are_found_by_requests_in_each_language(tools: Figures, language: str):
    assert tools[language]["requests"] == (60 if language == ALL else 10)
    assert tools[language]["R@5"] >= LEAST


def test_skills_are_found_by_them_too():
    found = by_language(outcomes(load(SETS["skills"])))
    assert {*found} == {ALL, *LANGUAGES}
    assert found[ALL]["R@5"] >= LEAST


@pytest.mark.parametrize("name", SETS)
def test_their_answers_exist_and_each_is_asked_once(name: str):
    dataset = load(SETS[name])
    assert {one for query in dataset.queries for one in query.gold} <= {document.id for document in dataset.documents}
    assert len({query.text for query in dataset.queries}) == len(dataset.queries)


@pytest.mark.parametrize("name", ENGLISH)
@pytest.mark.parametrize("misspelt", [0, 0.5])
def test_every_english_request_is_searched_for_as_it_is_written(name: str, misspelt: float):
    dataset = load(ENGLISH[name]).misspelt(misspelt)
    translations, knows = Translations(), _known(dataset)
    changed = [query.text for query in dataset.queries if translations.in_english(query.text, knows) != query.text]
    assert changed == []


def _known(dataset: Dataset) -> Knows:
    stems = {stem(word) for each in dataset.documents for word in words(f"{each.server} {each.text} {each.body}")}
    return lambda word: stem(word) in stems
