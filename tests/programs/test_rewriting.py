"""Ordinary Python that a worker's interpreter does not run as it stands has the value that Python gives it (R414)."""

import ast
import json
from typing import Any

import pytest
from repository import ON, git, ran

from toolcrib.programs.source import read
from worlds import world

pytestmark = pytest.mark.anyio

ORDINARY = (
    "max({'a': 2, 'b': 3}, key={'a': 2, 'b': 3}.get)",
    "counts = {'a': 2, 'b': 3}\nsorted(counts, key=counts.get, reverse=True)",
    "from collections import Counter\nc = Counter('abb')\nmin(c, key=c.get)",
    "sorted(['b', 'A', 'c'], key=str.lower)",
    "[*map(str.strip, [' a ', 'b '])], any(map(str.isdigit, 'a1'))",
    "list(filter(str.isalpha, 'a1b'))",
    "str.join('-', ['a', 'b']), dict.get({'a': 1}, 'a'), str.upper('a')",
    "dict.fromkeys('ab', 0)",
    "rows = []\nadd = rows.append\nadd(1)\nadd(2)\nrows",
    "ok = 'abc'.startswith\n[ok('a'), ok('b')]",
    (
        "class Row:\n    def __init__(self): self.count = 3\n    def twice(self): return 6\nrow = Row()\n"
        "f = row.twice\n[f(), row.count]"
    ),
    (
        "class Row:\n    def __init__(self, name): self.name = name\n    def key(self): return self.name\n"
        "[row.name for row in sorted([Row('b'), Row('a')], key=Row.key)]"
    ),
    "import re\nfound = re.compile(r'\\d').search\n[bool(found(each)) for each in ['a1', 'b']]",
    "import re\nlist(filter(re.compile('a').match, ['ab', 'ba']))",
    "import math, json\n[list(map(math.floor, [1.5])), list(map(json.loads, ['[1]']))]",
    "import os\nlist(map(os.path.basename, ['a/b', 'c']))",
    "from datetime import date\n[day.year for day in map(date.fromisoformat, ['2024-01-02'])]",
    "from functools import partial, reduce\n[partial('a,b'.split, ',')(), reduce({1: 5}.get, [1, 2])]",
    "import itertools\nlist(itertools.takewhile({'a': 1}.get, 'aab'))",
    "table = {'a': 'x'}\n'-'.join(map(table.get, 'aa'))",
    "max(\n    {'a': 1, 'b': 2},\n    key=(\n        {'a': 1, 'b': 2}\n        .get\n    ),\n)",
    "d = {'a': 1}\nget = (d or {}).get\nget('a')",
    "it = (n * n for n in [1, 2, 3])\n[next(it), next(it), list(it)]",
    "it = map(str, [1, 2])\n[next(it), next(it), next(it, None)]",
    "pairs = zip('ab', [1, 2])\nfirst = next(pairs)\n[list(first), dict(pairs)]",
    "e = enumerate('ab')\n[list(next(e)), list(next(e))]",
    "next(filter(lambda n: n > 1, [1, 2, 3]), None)",
    "next((n for n in [1, 2] if n > 1), None), next(n for n in [3])",
    "next(reversed([1, 2])), next(iter({'a': 1}))",
    "class Map:\n    def map(self, x): return x\nmap = Map().map\nmap(3)",
    "def filter(f, xs): return [3]\nnext(iter(filter(None, [])))",
    "def str(x): return 'own'\nstr(1)",
    ("x = [1]\ntry:\n    f = x.items\nexcept AttributeError:\n    f = None\nf() if f else 'none'"),
    "import re\nfound = re.finditer('a', 'aba')\n[next(found).start(), next(found).start()]",
    "import re\nfound = re.compile('a')\nnext(found.finditer('ba'), None).start()",
    "it: object = (n for n in [1, 2])\n[next(it), (again := map(str, [3])) and next(again), next(it)]",
    "get = first = {'a': 1}.get\nfirst('a')",
    "import itertools\n[key for key, _ in itertools.groupby('aab', {'a': 1}.get)]",
    "def f(*, key): return key\nclass Row:\n    def __init__(self): self.title = 'a'\nf(key=Row().title)",
    "[f'{max({\"a\": 1}, key={\"a\": 1}.get)}', max(['a', 'b'], key=dict(a=2, b=1).get)]",
    "try:\n    raise ValueError(404)\nexcept ValueError as error:\n    said = str(error)\nsaid",
    "try:\n    raise KeyError('a')\nexcept KeyError as error:\n    said = error.args[0]\nsaid",
    "max({'a': 2}, key=({'a': 2}  # a.b\n  .get))",
    "code = 404\ntry:\n    raise ValueError(code)\nexcept ValueError as error:\n    said = f'{error}'\nsaid",
    (
        "try:\n    int('x')\nexcept ValueError as error:\n    try:\n        raise RuntimeError(error) from error\n"
        "    except RuntimeError as other:\n        said = str(other)\nsaid"
    ),
    "try:\n    raise FileNotFoundError('a')\nexcept (IOError, EnvironmentError) as error:\n    said = str(error)\nsaid",
    "from __future__ import annotations\ndef f(x: list[int]) -> int:\n    return sum(x)\nf([1, 2])",
    "é = {'ü': 1}\nmax(é, key=é.get)",
    "'one line'; max({'a': 2}, key={'a': 2}.get)",
)


def by_python(code: str) -> Any:
    """Return what Python itself gives for a program, as JSON has it."""
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(tree, "program", "exec"), names)
    return json.loads(json.dumps(eval(compile(ast.Expression(last.value), "program", "eval"), names)))


@pytest.mark.slow
async def test_ordinary_python_has_the_value_that_python_gives_it(tmp_path):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        for code in ORDINARY:
            said, expected = await ran(client, code), by_python(code)
            assert (said if isinstance(expected, str) else json.loads(said)) == expected, (code, said)


@pytest.mark.parametrize("code", ORDINARY, ids=[each[-40:] for each in ORDINARY])
def test_every_statement_stays_in_its_line(code):
    written, runs = ast.parse(code), ast.parse(read(code, 10_000).code)
    of_all = [[node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)] for tree in (written, runs)]
    assert of_all[0] == of_all[1]


async def test_an_error_beside_something_rewritten_names_the_line_that_was_written(tmp_path):
    code = "best = max(\n    {'a': 1},\n    key=(\n        {'a': 1}\n        .get\n    ),\n)\n1 / 0"
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        assert (await ran(client, code)).startswith("ERROR The program failed in line 8: ZeroDivisionError")
        said = await ran(client, "d = {}\nfirst = d.get\nfirst(\n    'a'\n).b")
        assert said.startswith("ERROR The program failed in line 3: AttributeError: 'NoneType'"), said
