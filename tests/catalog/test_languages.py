"""Catalogs and queries in other languages than English."""

import pytest
from builders import World, listing, names, record

CATALOGS = {
    "Chinese": {
        "create_issue": "在仓库中创建一个新的问题。",
        "delete_file": "从磁盘删除文件。",
        "weather": "查询城市的天气预报。",
        "translate": "把文本翻译成另一种语言。",
    },
    "Japanese": {
        "create_issue": "リポジトリに新しい課題を作成します。",
        "delete_file": "ディスクからファイルを削除します。",
        "weather": "都市の天気予報を調べます。",
        "translate": "テキストを別の言語に翻訳します。",
    },
    "Korean": {
        "create_issue": "저장소에 새 이슈를 만듭니다.",
        "delete_file": "디스크에서 파일을 삭제합니다.",
        "weather": "도시의 날씨 예보를 조회합니다.",
        "translate": "텍스트를 다른 언어로 번역합니다.",
    },
    "Russian": {
        "create_issue": "Создаёт новую задачу в репозитории.",
        "delete_file": "Удаляет файл с диска.",
        "weather": "Показывает прогноз погоды для города.",
        "translate": "Переводит текст на другой язык.",
    },
    "German": {
        "create_issue": "Legt eine neue Aufgabe im Projektspeicher an.",
        "delete_file": "Löscht eine Datei von der Festplatte.",
        "weather": "Zeigt die Wettervorhersage für eine Stadt.",
        "translate": "Übersetzt einen Text in eine andere Sprache.",
    },
    "Spanish": {
        "create_issue": "Crea una nueva incidencia en el repositorio.",
        "delete_file": "Elimina un archivo del disco.",
        "weather": "Consulta la previsión meteorológica de una ciudad.",
        "translate": "Traduce un texto a otro idioma.",
    },
}

QUERIES = [
    ("Chinese", "请帮我创建新问题", "create_issue"),
    ("Chinese", "删除文件", "delete_file"),
    ("Chinese", "明天的天气怎么样", "weather"),
    ("Chinese", "翻译这段文本", "translate"),
    ("Japanese", "ファイルを削除したい", "delete_file"),
    ("Japanese", "明日の天気", "weather"),
    ("Korean", "파일 삭제", "delete_file"),
    ("Korean", "내일 날씨", "weather"),
    ("Russian", "создать задачу в репозитории", "create_issue"),
    ("Russian", "УДАЛИТЬ ФАЙЛ", "delete_file"),
    ("Russian", "какая погода в городе", "weather"),
    ("Russian", "перевести текст", "translate"),
    ("German", "eine Datei löschen", "delete_file"),
    ("German", "eine Datei loschen", "delete_file"),
    ("German", "Wettervorhersage für morgen", "weather"),
    ("German", "ÜBERSETZT DEN TEXT", "translate"),
    ("Spanish", "eliminar un archivo", "delete_file"),
    ("Spanish", "prevision meteorologica", "weather"),
    ("Spanish", "traducir el texto al idioma inglés", "translate"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("language", "query", "expected"), QUERIES)
def test_a_request_in_the_language_of_a_catalog_finds_its_tool(world: World, ask, language, query, expected):
    tools = [record("s", f"t{number}", text) for number, text in enumerate(CATALOGS[language].values())]
    world.listed(listing("s", *tools))
    assert names(ask(world, query))[0] == f"s__t{list(CATALOGS[language]).index(expected)}"


def test_all_languages_can_stand_in_one_catalog(world: World, ask):
    for language, texts in CATALOGS.items():
        world.listed(listing(language, *(record(language, name, text) for name, text in texts.items())))
    for language, query, expected in QUERIES:
        assert f"{language}__{expected}" in names(ask(world, query))[:3], query


def test_a_name_in_any_writing_is_found_in_every_spelling(world: World, ask):
    world.listed(listing("s", record("s", "创建_问题"), record("s", "créerFichier"), record("s", "Datei-öffnen")))
    for query in (
        "创建问题",
        "创建 问题",
        "s.创建_问题",
        "creer_fichier",
        "CRÉER FICHIER",
        "datei öffnen",
        "dateiOffnen",
    ):
        first = ask(world, query).matches[0]
        assert (first.score, first.match_type) == (1.0, "exact"), query
