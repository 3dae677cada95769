"""What a worker's Python lacks is refused before anything runs, with what to write instead (R413)."""

import importlib
import json
import os

import pytest
from repository import ON, git, ran

from toolcrib.programs.source import NotRunnable, read
from worlds import world

pytestmark = pytest.mark.anyio

LACKING = {
    "import os\nos.listdir('.')": "line 2: os has no listdir here: nothing of this machine is here",
    "import os as o\no.environ['HOME']": "os has no environ here: there is no environment",
    "from os import getenv": "os has no getenv here: there is no environment",
    "import os\nos.path.exists('a')": "os.path has no exists here",
    "from os import path as p\np.getsize('a')": "os.path has no getsize here",
    "import os.path": "there is no module 'os.path' here: use import os",
    "from pathlib import Path\nPath('a').read_text()": "there is no read_text here: there are no files, use a tool",
    "from pathlib import Path\nlist(Path('.').glob('*'))": "there is no glob here: there are no files",
    "from pathlib import Path\nPath.cwd()": "pathlib.Path has no cwd here: there are no files",
    "import pathlib\np = pathlib.Path('a')\np.relative_to('b')": "no relative_to here: use str(p).removeprefix",
    "from pathlib import PurePath": "pathlib has no PurePath here: use Path",
    "import sys\nsys.exit(1)": "sys has no exit here: end with an expression",
    "import sys\nsys.stdout.write('a')": "sys.stdout has no write here: use print",
    "import re\nre.compile('a', re.VERBOSE)": "re has no VERBOSE here: begin the pattern with (?x)",
    "from re import subn": "re has no subn here",
    "import re\nre.sub('a', lambda m: m[0], 'b')": "sub takes no function here: loop over re.finditer",
    "import re\np = re.compile('a')\ndef f(m): return ''\np.sub(f, 'b')": "line 4: sub takes no function here",
    "import json\njson.dumps({1}, default=str)": "json.dumps takes no default here: convert the values first",
    "import json\njson.loads('1', object_hook=dict)": "json.loads takes no object_hook here",
    "from json import JSONEncoder": "json has no JSONEncoder here",
    "import json\ntry: json.loads('')\nexcept ValueError as e: print(e.msg)": "line 3: an error has no msg here",
    "from dataclasses import (dataclass,\n    asdict)": "line 2: dataclasses has no asdict here: write the dict",
    "from dataclasses import dataclass\n@dataclass(order=True)\nclass A: pass": "dataclass takes no order here",
    "from datetime import datetime\ndatetime.utcnow()": "has no utcnow here: use datetime.now(timezone.utc)",
    "import datetime as d\nd.datetime.fromtimestamp(0)": "has no fromtimestamp here: use datetime(1970, 1, 1",
    "from datetime import UTC": "datetime has no UTC here: use timezone.utc",
    "from datetime import date\ndate(2024, 1, 2).isocalendar()": "there is no isocalendar here: use strftime",
    "from typing import TypedDict": "typing has no TypedDict here: use dict[str, Any]",
    "from typing import List\nisinstance([], (dict, List))": "isinstance takes no typing.List here: use list",
    "import re\nf = lambda m: ''\nre.sub('a', f, 'b')": "sub takes no function here",
    "import re\nre.sub('a', str.upper, 'b')": "sub takes no function here",
    "from functools import wraps": "functools has no wraps here: leave it out",
    "from collections import OrderedDict": "collections has no OrderedDict here: use a dict",
    "from collections.abc import Mapping": "there is no module 'collections.abc' here: use typing",
    "import asyncio\ntry: pass\nexcept asyncio.TimeoutError: pass": "has no TimeoutError here: use TimeoutError",
    "import urllib.request": "there is no module 'urllib.request' here: use a tool that fetches",
    "import math.nothing": "there is no module 'math.nothing' here",
    "from math import *": "import what you need by name: from math import name",
    "import __future__": "there is no module '__future__' here",
    "exit()": "there is no exit here: end with an expression, and use if and else for the rest",
    "raise SystemExit": "there is no SystemExit here: end with an expression",
    "try: pass\nexcept (ValueError, EOFError): pass": "there is no EOFError here: use Exception",
    "items = [1]\nd = {}\nhasattr(d, 'items')": "hasattr sees no methods here",
    "translate = 1\n'a'.translate({})": "there is no translate here",
    "class A: pass\nA().__dict__": "there is no __dict__ here",
    "from typing import Dict\nRow = Dict[str, int]": "typing.Dict is for annotations here: use dict",
    "raise ValueError('a', 1)": "ValueError takes one text here: use an f-string",
    "import json\nraise json.JSONDecodeError('a', 'b', 0)": "json.JSONDecodeError takes one text here",
    "raise ToolError(*['a'])": "ToolError takes one text here",
    "NONE = object()": "there is no object() here: use None, or a text",
    "hasattr({}, 'items')": "hasattr sees no methods here: use isinstance(x, dict)",
    "getattr('a', 'upper')()": "getattr sees no methods here",
    "'a'.translate({})": "there is no translate here: use str.replace",
    "''.__class__.__name__": "there is no __class__ here: use type(x)",
    "def f(): pass\nf.__name__": "there is no __name__ here: write the name itself",
    "class A:\n    def __len__(self): return 0": "line 2: __len__ is never called here: write a plain method",
    "class A:\n    def __lt__(self, o): return True": "__lt__ is never called here: sort with key=...",
    "class A:\n    class B: pass": "line 2: a class has only methods and name = value here",
    "class A:\n    x, y = 1, 2": "a class has only methods and name = value here, each in a line",
    "class A:\n    @wrapped\n    def f(self): pass": "methods have no decorators here",
    "if True:\n    return 1\n2": "line 2: return is outside of a function: write async def main(): ...",
    "try:\n    return 1\nfinally:\n    pass": "line 2: return is outside of a function",
    "f\"{x['a'\"": "use other quotes inside of it",
}


@pytest.mark.parametrize(("code", "said"), LACKING.items(), ids=[each[-40:] for each in LACKING])
def test_what_a_worker_lacks_is_refused_with_what_to_write_instead(code, said):
    with pytest.raises(NotRunnable) as caught:
        read(code, 10_000)
    assert said in str(caught.value)


OWN = (
    "open = 1\nopen",
    "def exit(): return 1\nexit()",
    "for dir in ['a']: print(dir)",
    "def f(input, help=None): return input\nf(1)",
    "import datetime\nfor datetime in ['2024-01-02']: print(datetime.split('-'))",
    "import time\ndef f(time): return time.hour_of_day\n1",
    "import ast\nast = {}\nast.update(a=1)",
    "from pathlib import Path\nclass Shop:\n    def open(self): return 1\nShop().open()",
    "class A:\n    def f(self): return self.__class__.__name__\nA().f()",
    "class A:\n    def __init__(self): self.items = []\nhasattr(A(), 'items')",
    "import re\nre.sub('a', str(1), 'b')",
    "try: pass\nexcept ValueError as e: print(e.args)",
    "type('a').__name__",
    "try:\n    from datetime import UTC\nexcept ImportError:\n    UTC = None",
    "try:\n    x = 'a'.translate({})\nexcept (AttributeError, TypeError):\n    x = 'a'",
    "from datetime import date as d\nd(2024, 1, 2).isocalendar() if hasattr(d, 'isocalendar') else 1",
    "try: pass\nexcept Exception as e: print(e.message if hasattr(e, 'message') else e)",
    "try: pass\nexcept Exception as e:\n    for e in []: print(e.code)",
    "try: pass\nexcept Exception as e: print(sorted([], key=lambda e: e.date))",
    "from pathlib import Path\nfrom collections import namedtuple\nBar = namedtuple('Bar', 'open')\nBar(1).open",
    "from collections import namedtuple\nRow = namedtuple('Row', ['get', 'count'])\nhasattr(Row(1, 2), 'get')",
    "getattr({'a': 1}, 'title', None)",
    "class Text:\n    def sub(self, f): return f\nText().sub(lambda: 1)",
    "class A:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False",
    "def f():\n    return 1\nf()",
    "x = 1\nreturn x",
    "x: object = 1\nisinstance(x, object)",
    "import os\nos.path.join('a', os.sep, os.path.basename('b/c'))",
    "from pathlib import Path\nPath('a/b.c').with_suffix('.d').name",
    "a" + ".b" * 400,
)


@pytest.mark.parametrize("code", OWN, ids=[each[-40:] for each in OWN])
def test_names_of_the_program_and_what_a_worker_has_are_not_refused(code):
    assert read(code, 20_000).code


PARTLY = "asyncio collections dataclasses datetime functools json pathlib re sys time typing".split()
NEARLY = "base64 binascii bisect copy csv decimal hashlib itertools math random tomllib unicodedata".split()


def is_read(code: str) -> bool:
    try:
        read(code, 10_000)
    except NotRunnable:
        return False
    return True


@pytest.mark.slow
async def test_what_is_read_of_a_module_is_what_a_worker_has_of_it(tmp_path):
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        for module in PARTLY:
            names = [name for name in dir(importlib.import_module(module)) if not name.startswith("_")]
            there = json.loads(await ran(client, f"import {module}\n[n for n in {names} if hasattr({module}, n)]"))
            assert [name for name in names if is_read(f"import {module}\n{module}.{name}")] == there, module
            assert [name for name in names if is_read(f"from {module} import {name}")] == there, module
        for module in NEARLY:
            names = [name for name in dir(importlib.import_module(module)) if not name.startswith("_")]
            there = json.loads(await ran(client, f"import {module}\n[n for n in {names} if hasattr({module}, n)]"))
            for name in set(names) - set(there):
                assert "Nothing ran" in await ran(client, f"import {module}\n{module}.{name}"), name


@pytest.mark.slow
async def test_what_is_read_of_the_system_needs_no_machine(tmp_path):
    paths = [
        path
        for path in [f"os.{name}" for name in dir(os)] + [f"os.path.{name}" for name in dir(os.path)]
        if "._" not in path and is_read(f"import os\n{path}")
    ]
    assert {"os.sep", "os.path.join", "os.path.splitext"} <= set(paths)
    async with world(tmp_path, {"git": git()}, ON) as w, w.client() as client:
        kinds = json.loads(await ran(client, f"import os\n[type(each).__name__ for each in [{', '.join(paths)}]]"))
        for path, kind in zip(paths, kinds, strict=True):
            if "function" in kind:
                given = "['a/b', 'a/c']" if "common" in path else "'a/b.c'"
                assert not (said := await ran(client, f"import os\n{path}({given})")).startswith("ERROR"), said
