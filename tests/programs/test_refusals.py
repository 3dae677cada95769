"""What is refused before anything runs: mistakes, and what a caller may not use (R386)."""

import pytest
from repository import ON, configured, git, ran

from worlds import Client, World, world

pytestmark = pytest.mark.anyio

LOG = "from tools import git__git_log\n"
READ = "from tools import git__read\ntext = await git__read(path='a')\n"


async def refused(client: Client, world: World, code: str) -> str:
    said = await ran(client, code)
    assert said.startswith("ERROR Nothing ran; the program has to be changed:\n- "), said
    assert world["git"].calls() == []
    return said.partition("- ")[2]


MISTAKES = {
    LOG + "log = git__git_log(repo='.')\nlog[0]": "line 3: await is missing",
    LOG + "git__git_log(repo='.')\n1": "line 2: await is missing",
    LOG + "for c in git__git_log(repo='.'): print(c)": "line 2: await is missing",
    LOG + "await git__git_log(rep='.')": "git__git_log has no argument rep: did you mean repo?",
    LOG + "await git__git_log(repo='.', zzz=1)": "git__git_log has no argument zzz; it has repo, count",
    LOG + "await git__git_log(count=1)": "git__git_log needs repo",
    LOG + "await git__git_log('.')": "git__git_log takes arguments by name: git__git_log(repo=…, count=…)",
    LOG + "await git__git_log(repo=1)": "git__git_log takes str, not Literal[1]",
    LOG + "await git__git_log(repo='.', count='3')": "git__git_log takes int",
    "from tools import git__read\nawait git__read(path='a', mode='raw')": 'git__read takes Literal["lines", "text"]',
    LOG + "await git_git_log(repo='.')": "the name git_git_log is not defined: did you mean git__git_log?",
    "await git__git_log(repo='.')": "import it with from tools import git__git_log",
    "from tools import git__git_lgo\nawait git__git_lgo()": "Unknown tool: git__git_lgo. Similar names: git__git_log",
    "await call('git__git_lgo')": "line 1: Unknown tool: git__git_lgo. Similar names: git__git_log",
    "import tools\n1": "import tools by name: from tools import server__tool",
    "from tools import *\n1": "import tools by name",
    "import statistics\n1": "there is no module 'statistics' here: use sum(xs)",
    "import requests\n1": "there is no module 'requests' here: use a tool that fetches",
    "from os.path import join\n1": "there is no module 'os.path' here",
    "class A(dict): pass": "classes cannot inherit here",
    "def f():\n    yield 1\nlist(f())": "line 2: there is no yield here",
    "async def f():\n    async with x: pass": "there is no async with here",
    "async def f():\n    async for x in y: pass": "there is no async for here",
    "x = {}\ndel x['a']": "there is no del here",
    "import asyncio\nasyncio.create_task(1)": "asyncio has no create_task here: use await parallel([...])",
    "from asyncio import Semaphore": "asyncio has no Semaphore here",
    "import asyncio\nasync def f(): pass\nawait asyncio.gather(f(), return_exceptions=True)": 'errors="return"',
    "class A:\n    @property\n    def x(self): return 1": "methods have no decorators here",
    "open('a').read()": "there are no files, use a tool",
    "eval('1')": "there is no eval here",
    "print(1": "line 1: this is not Python: '(' was never closed",
    "x = '\x00'": "this is not Python",
    "(" * 300 + ")" * 300: "this is not Python",
    "prnt(1)": "the name prnt is not defined",
    READ + "text['sha']": "line 3: this is a str, which has no sha: read it first, with json.loads if it is JSON",
    READ + "[each['sha'] for each in text]": "line 3: this is a str, which has no ",
    READ + "text[0]['sha']": "line 3: this is a str, which has no ",
    READ + "text['a'] = 1": "line 3: this is a str, which has no ",
    READ + "for key, value in text.items(): print(key)": "line 3: this is a str, which has no items: read it first",
    READ + "text.content": "line 3: this is a str, which has no content: it is the text itself",
    READ + "for line in text:\n    said = line\n    print(said['a'])": "line 5: this is a str, which has no a: ",
    "from tools import git__read as r\n(await r(path='a'))['sha']": "line 2: this is a str, which has no sha: ",
}


@pytest.mark.sampled
@pytest.mark.parametrize(("code", "said"), MISTAKES.items(), ids=[each[-40:] for each in MISTAKES.values()])
async def test_mistakes_are_refused_before_any_call_with_what_to_change(tmp_path, code, said):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        assert said in await refused(client, w, code)


RUNS = {
    "x = {'a': []}\nx['a'].append('b')\nx": '{"a":["b"]}',
    "list(map(str, filter(None, [0, 1])))": '["1"]',
    "next((n for n in [1, 2] if n > 1), None)": "2",
    "next(n for n in [1, 2])": "1",
    "next(iter({'a': 1}))": "a",
    "[getattr('a', 'b', 1), hasattr('a', 'b'), format(1.5, '.2f')]": '[1,false,"1.50"]',
    "try:\n    raise FileNotFoundError('x')\nexcept (PermissionError, OSError) as error:\n    print(error)": "x",
    "def f(rows: list[dict]) -> dict[str, int]:\n    return {r['a']: 1 for r in rows}\nf([{'a': 'x'}])": '{"x":1}',
    "class A:\n    def __init__(self):\n        self.n = 0\n    def add(self, n):\n        self.n += n\nA().n": "0",
    "best = None\nfor i in range(3):\n    if best is None or i > best['i']: best = {'i': i}\nbest": '{"i":2}',
    "from functools import reduce\nimport math\nreduce(max, [1, 3], 2) + math.floor(1.5)": "4",
    LOG + "d = {'repo': '.', 'count': 1}\nlen(await git__git_log(**d))": "1",
    LOG + "n = int('1') if True else None\nlen(await git__git_log(repo='.', count=n))": "1",
    "from tools import git__read\nm = 'te' + 'xt'\nbool(await git__read(path='a', mode=m))": "true",
    "from tools import (git__read,\n    git__git_log as log)\nlen(await log(repo='.'))": "2",
    "async def f():\n    from tools import git__git_log as g\n    return len(await g(repo='.'))\nawait f()": "2",
    "import asyncio\nasync def main():\n    return 5\nasyncio.run(main())": "5",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nP(3).x": "3",
    "from collections import defaultdict\nd = defaultdict(list)\nd['a'].append(1)\nd": '{"a":[1]}',
    "import time, asyncio\ntime.sleep(0)\nawait asyncio.sleep(0)\n1": "1",
    "rows = []\nfor n in range(2):\n    rows.append({'n': n})\nsorted(rows, key=lambda r: -r['n'])[0]": '{"n":1}',
    "try:\n    {}['a']\nexcept KeyError as error:\n    print(repr(error))\n'ok'": "ok\nPrinted:\nKeyError('a')",
    "match [1, 2]:\n    case [a, *rest]:\n        print(a, rest)": "1 [2]",
    "'a;b' ; 3": "3",
    "# only a comment\n'é'  # and one more": "é",
    "(1\n + 2)": "3",
    READ + "try:\n    said = text['a']\nexcept TypeError:\n    said = len(text) > 0\nsaid": "true",
    READ + "len(text.value if hasattr(text, 'value') else text) > 0": "true",
    READ + "if hasattr(text, 'value'):\n    text = text.value\nlen(text) > 0": "true",
    READ + "len((not hasattr(text, 'value') and text) or text.value) > 0": "true",
    READ + "kind = type(text).__name__\ntext['a'] if kind == 'dict' else kind": "str",
    READ + "text = {'a': 5}\ntext['a']": "5",
    READ + "text['error'] if 'error' in text else len(text) > 0": "true",
    READ + ("a = text\n" + "a = a\n" * 40) + "[a.x for a in []]": "[]",
    "import datetime as d, typing as t\nfrom pathlib import Path\ndef f(x: d.tzinfo, y: t.NamedTuple = 1) -> d.UTC:\n"
    "    z: Path.cwd = y\n    return z\nf(1)": "1",
    "def f(run: callable): return run()\nf(lambda: 3)": "3",
    "try: raise ToolError('a')\nexcept (ConnectionError, ToolError) as error: print(error)": "a",
    READ + "rows = [{'text': text, 'meta': {'n': len(text)}}]\nmax(r['meta']['n'] for r in rows) > 0": "true",
    READ + "rows = [{'id': n, 'user': {'login': n}} for n in 'ab']\n{r['id']: r['user']['login'] for r in rows}": (
        '{"a":"a","b":"b"}'
    ),
    "by = {}\nby.setdefault('a', {'name': 'a', 'n': {}})\nby['a']['n']['x'] = 1\nby['a']['n']": '{"x":1}',
    "options = {'name': 'x', 'more': {'v': 1}, 'n': 1}\nfor key in ['more']: print(options[key]['v'])": "1",
    "pairs = [['a', {'x': 1}]]\npairs[0][1]['x']": "1",
    LOG + READ + "rows = await git__git_log(repo='.')\nfor row in rows:\n    text = row\ntext['sha']": "1111",
    READ + "text['a'] if isinstance(text, dict) else len(text) > 0": "true",
    READ + "text = {'a': [text]}\nlen(text['a'])": "1",
    "from __future__ import annotations\nfrom typing import Any\ndef f(x: Any) -> int:\n    return 1\nf(2)": "1",
    "x = 1\r\ny = 2\r\nx + y": "3",
}


@pytest.mark.sampled
@pytest.mark.parametrize(("code", "said"), RUNS.items(), ids=[each[-40:] for each in RUNS])
async def test_what_runs_is_not_refused(tmp_path, code, said):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        assert await ran(client, code) == said


async def test_denied_hidden_and_nonexistent_tools_are_one_and_the_same_error(tmp_path):
    policy = {"deny": ["git.secret"]}
    async with world(tmp_path, {"git": git()}, configured(policy)) as w, w.client() as client:
        for way in ("from tools import {0}\nawait {0}()", "await call('{0}')", "await call('{0}', {{'a': 1}})"):
            denied = await refused(client, w, way.format("git__secret"))
            unknown = await refused(client, w, way.format("git__sacred"))
            assert denied.replace("git__secret", "X") == unknown.replace("git__sacred", "X")
        found = await ran(client, "[hit['name'] for hit in await search('tell a secret')]")
        assert "secret" not in found


async def test_a_denied_tool_does_not_move_the_numbers_of_others(tmp_path):
    servers = {"git": git()}
    code = "from tools import git__odd_name\nawait git__odd_name()\n1"
    async with world(tmp_path, servers, configured({"deny": ["git.odd_*"]})) as w, w.client() as client:
        assert await ran(client, code) == "1"


async def test_a_program_that_is_too_long_is_refused(tmp_path):
    async with world(tmp_path, {"git": git()}, configured(code_bytes=100)) as w, w.client() as client:
        said = await refused(client, w, "x = 1\n" * 50)
        assert "it has 300 bytes, and at most 100 can run (programs.code_bytes)" in said


async def test_what_the_checker_only_guesses_is_a_note_beside_a_failure_and_nothing_beside_a_value(tmp_path):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        code = "import re\nm = re.search({!r}, 'a')\nm.group()"
        assert await ran(client, code.format("a")) == "a"
        for _ in range(2):
            said = await ran(client, code.format("b"))
            assert said.startswith("ERROR The program failed in line 3: AttributeError")
            assert "\nline 3: Attribute `group` is not defined on `None`" in said


@pytest.mark.parametrize("name", ["result", "search", "call", "parallel"])
async def test_a_program_that_takes_one_of_our_names_for_a_value_is_not_told_so(tmp_path, name):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        begun = f"{name} = {{}}\n{name}['a'] = 1\n"
        assert await ran(client, begun + name) == '{"a":1}'
        said = await ran(client, f"{begun}{name}['b']")
        assert said.startswith("ERROR The program failed in line 3: KeyError")
        assert "line 1" not in said
        assert "def " not in said
