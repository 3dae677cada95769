"""Every command and snippet that the documents show is one that works: parsed as what it is for, or run elsewhere."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import dropwhile
from pathlib import Path
from typing import Any

import pytest
import typer
from check_docs import FENCE, ROOT, documents
from typer.exceptions import TyperException

from toolcrib.base.json_values import as_object
from toolcrib.base.yaml import parse_yaml
from toolcrib.catalog.evaluation import read_cases
from toolcrib.cli.app import build
from toolcrib.cli.serve import _parser
from toolcrib.config.loading import load

PAGES = [page for page in documents() if "adr" not in page.parts]
"""What people follow. A decision speaks of its day."""

INLINE = re.compile(r"(?<!`)`(?:\.venv/bin/)?toolcrib ([^`\n]+)`")
LANGUAGES = {"sh", "json", "jsonl", "yaml", "toml", "text", "python", ""}
OTHERS = {
    *("python", "python3", "pip", "pipx", "uv", "git", "npx", "claude", "rm", "kill", "set", "mcp-publisher"),
    *("grep", "sort", "uniq"),
    *(".venv/bin/pip", ".venv/bin/python", ".venv/bin/pre-commit", "~/toolcrib-venv/bin/pip"),
}
"""Programs besides ours that a shell snippet may start: each is run by a test of its own, or is another's."""


CAPABILITIES = next(
    body
    for language, body in FENCE.findall((ROOT / "docs" / "capabilities.md").read_text(encoding="utf-8"))
    if language == "text"
)
"""The file of capabilities that its page shows."""


def fences(*languages: str) -> list[Any]:
    """Return the snippets in these languages, each with where it stands."""
    return [
        pytest.param(body, id=f"{page.relative_to(ROOT)}:{text[: found.start()].count(chr(10)) + 1}")
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for found in FENCE.finditer(text)
        for language, body in [found.groups()]
        if language in languages
    ]


def commands(body: str) -> Iterator[list[str]]:
    """Yield the commands of a shell snippet as words, without comments, and without a way to continue a line."""
    for line in body.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set(";&|"):
                if words:
                    yield words
                words = []
            else:
                words.append(word)


@cache
def _command_line() -> Any:
    return typer.main.get_command(build())


def understood(words: list[str], *, whole: bool) -> None:
    """Fail where our command line does not take these words; unless ``whole``, what must follow may be missing."""
    if words[0] == "serve":  # it reads its options itself
        _parser().parse_args(words[1:])
        return
    command = _command_line()
    while hasattr(command, "commands"):
        if not words or words[0].startswith("-"):
            assert words
            assert words[0] in ("--help", "-h", "--version", "--install-completion", "--show-completion")
            return
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
        if not words and hasattr(command, "commands"):
            return  # a group, spoken of as a whole
    try:
        with command.make_context("toolcrib", list(words)):
            pass
    except TyperException as error:
        if whole or not re.search("Missing|requires an argument", error.format_message()):
            raise AssertionError(error.format_message()) from error


def transcripts() -> list[Any]:
    """Return what is typed in pictures of a terminal."""
    typed = ((one, "\n".join(re.findall(r"^\$ (.+)$", one.values[0], re.MULTILINE))) for one in fences("text"))
    return [pytest.param(body, id=one.id) for one, body in typed if body]


@pytest.mark.sampled
@pytest.mark.parametrize("body", [*fences("sh"), *transcripts()])
def test_a_shell_snippet_has_only_commands_that_there_are(body: str):
    for line in commands(body):
        words = list(dropwhile(re.compile(r"\w+=").match, line))
        program = words[0].removeprefix("./").removeprefix(".venv/bin/")
        if program == "toolcrib":
            understood(words[1:], whole=True)
        elif "/" in words[0] and not words[0].startswith((".venv/", "~/")):
            assert (ROOT / words[0]).is_file(), words[0]
        else:
            assert words[0] in OTHERS, words[0]
            for script in (word for word in words[1:] if word.endswith(".py")):
                assert (ROOT / script).is_file(), script


@pytest.mark.sampled
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_of_ours_in_a_sentence_is_one(page: Path):
    for written in INLINE.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        understood(shlex.split(written.replace("…", " ")), whole=False)


@pytest.mark.parametrize("body", fences("json"))
def test_a_json_snippet_for_us_is_a_config_without_an_error(body: str, tmp_path: Path):
    document = as_object(json.loads(body))
    # The entry of toolcrib in another client's file is looked at in ``tests/cli/test_clients_page.py``.
    if {"mcpServers", "toolcrib"} & document.keys() and "toolcrib" not in as_object(document.get("mcpServers")):
        usable(document, tmp_path / "crib.json")


@pytest.mark.parametrize("body", fences("yaml"))
def test_a_yaml_snippet_for_us_is_a_config_without_an_error(body: str, tmp_path: Path):
    document = as_object(parse_yaml(body))
    if "toolcrib" in document:
        usable(document, tmp_path / "crib.json")


@pytest.mark.parametrize("body", fences("toml"))
def test_a_toml_snippet_is_toml(body: str):
    assert tomllib.loads(body)


def usable(document: dict[str, Any], file: Path) -> None:
    """Fail where a config with this in it cannot be used; a snippet may speak of servers that stand elsewhere."""
    spoken_of = as_object(as_object(document.get("toolcrib")).get("servers"))
    servers = {**{name: {"command": "any"} for name in spoken_of}, **as_object(document.get("mcpServers"))}
    text = json.dumps({**document, "mcpServers": servers})
    file.write_text(text, encoding="utf-8")
    search = as_object(as_object(document.get("toolcrib")).get("tool_search"))
    for name in search.get("capabilities", ()):
        (file.parent / name).write_text(CAPABILITIES, encoding="utf-8")
    variables = {name: f"long-enough-for-a-token-{name}" for name in re.findall(r"\$\{(\w+)", text)}
    load(file, {"HOME": str(file.parent), **variables}, file.parent)


def test_every_snippet_says_what_it_is_in():
    found = {language for page in PAGES for language, _ in FENCE.findall(page.read_text(encoding="utf-8"))}
    assert found <= LANGUAGES


def test_the_queries_of_the_docs_are_such_that_can_be_tried():
    found = [text for page in PAGES for kind, text in FENCE.findall(page.read_text("utf-8")) if kind == "jsonl"]
    assert found
    for text in found:
        assert read_cases(text, lambda name: name)


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with its whole name."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, inner in command.commands.items():
        yield from leaves(inner, f"{name} {word}".strip())


def test_the_page_of_commands_has_each_of_them_and_says_which_options_they_share():
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    table = page.partition("| command | what it does |")[2].partition("\n\n")[0]
    found = dict(leaves(_command_line()))
    for name in found:
        assert all(word in re.findall(r"[\w-]+", table) for word in name.split()), f"{name} is not in the table"
    without = {
        option: {name for name, each in found.items() if not any(option in known.opts for known in each.params)}
        for option in ("--json", "--config")
    }
    secret = {"secret set", "secret list", "secret remove"}
    no_config = {"serve", "demo", "disconnect", "skills check", "top", *secret}
    assert without == {"--json": {"serve", "demo"}, "--config": no_config}
    said = (
        "all but `serve` and `demo` take `--json`, and all but `demo`, `disconnect`, `secret`, `skills "
        "check` and `top` `--config"
    )
    assert said in " ".join(page.split())
