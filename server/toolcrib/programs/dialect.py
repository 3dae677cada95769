"""The Python of a worker: what a program cannot use of the language and of its library, and what to write instead.

It is found in the parsed text, so before anything runs. Modules are listed by what they have here, so that a name which
nobody has thought of is refused too. Methods and attributes of values are told by their names alone: refused are those
that nothing in a worker has.
"""

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolcrib.base.text import one_line, truncate
from toolcrib.programs.names import ERROR, FUNCTIONS, TOOLS, Names

FUTURE: Final = "__future__"
"""The module of imports that do nothing here, and harm nothing."""

_NAME_MAX = 200
_NO_FILES = "there are no files, use a tool"
_WITH_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


def _sets(names: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    return {path: frozenset(each.split()) for path, each in names.items()}


# -- modules -------------------------------------------------------------------------------------

_WHOLE = frozenset("base64 binascii bisect copy csv decimal hashlib itertools math random tomllib unicodedata".split())
"""Modules of which a worker has what a program is likely to use; what it lacks, its type checker knows."""

_MEMBERS = _sets(
    {
        "ast": "literal_eval",
        "asyncio": "gather run sleep",
        "collections": "Counter defaultdict deque namedtuple",
        "dataclasses": "FrozenInstanceError MISSING dataclass field is_dataclass",
        "datetime": "date datetime time timedelta timezone",
        "datetime.date": "fromisoformat max min resolution today",
        "datetime.datetime": "combine fromisoformat max min now resolution strptime",
        "functools": "cache lru_cache partial reduce",
        "json": "JSONDecodeError dump dumps load loads",
        "os": "altsep curdir devnull extsep fspath linesep name pardir path pathsep sep",
        "os.path": "altsep basename commonpath commonprefix curdir dirname extsep isabs join normcase normpath pardir "
        "pathsep relpath sep split splitdrive splitext",
        "pathlib": "Path",
        "pathlib.Path": "",
        "re": "A ASCII DOTALL I IGNORECASE M MULTILINE Match NOFLAG Pattern PatternError S compile error escape "
        "findall finditer fullmatch match search split sub",
        "sys": "abiflags api_version argv base_exec_prefix base_prefix builtin_module_names byteorder copyright "
        "dont_write_bytecode exec_prefix executable flags float_info float_repr_style hexversion maxsize maxunicode "
        "platform platlibdir prefix pycache_prefix stderr stdout version version_info",
        "sys.stderr": "",
        "sys.stdout": "",
        "time": "altzone asctime ctime daylight gmtime localtime mktime monotonic monotonic_ns perf_counter "
        "perf_counter_ns process_time process_time_ns sleep strftime strptime thread_time thread_time_ns time time_ns "
        "timezone tzname",
        "typing": "Annotated Any Callable ClassVar Dict Final FrozenSet Generator Generic Iterable Iterator List "
        "Literal Mapping Never NoReturn Optional Protocol Self Sequence Set TYPE_CHECKING Tuple Type TypeVar Union",
    }
)
"""What a worker has of the other modules, and of some of their classes, by path; of ``os``, what needs no machine."""

_INSTEAD_OF_MODULE = {
    "calendar": "datetime",
    "collections.abc": "typing, or no annotation",
    "concurrent": "await parallel([...])",
    "contextlib": "try and finally",
    "dateutil": "datetime",
    "enum": "constants, or a dict",
    "fnmatch": "re, or str.endswith",
    "glob": "a tool for files",
    "heapq": "sorted(...)[:n]",
    "html": "str.replace",
    "httpx": "a tool that fetches",
    "io": "a str, and str.splitlines",
    "logging": "print",
    "numpy": "lists, sum and sorted",
    "operator": "a lambda",
    "os.path": "import os",
    "pandas": "lists of dicts, and collections.Counter",
    "pprint": "json.dumps(x, indent=2)",
    "pytz": "datetime.timezone",
    "requests": "a tool that fetches",
    "secrets": "random",
    "shutil": "a tool for files",
    "statistics": "sum(xs) / len(xs), sorted(xs)[len(xs) // 2]",
    "string": "the characters written out",
    "subprocess": "a tool",
    "tempfile": "a str",
    "textwrap": "str.splitlines and slices",
    "threading": "await parallel([...])",
    "traceback": "str(error)",
    "types": "a dict",
    "urllib": "a tool that fetches; str.split for an address",
    "uuid": "hashlib or random",
    "zoneinfo": "datetime.timedelta and datetime.timezone",
}
"""What to write in the place of modules that a worker lacks."""

_INSTEAD_OF_MEMBER = {
    "ast": "it has literal_eval",
    "asyncio": "use await parallel([...]), asyncio.gather or asyncio.sleep",
    "asyncio.TimeoutError": "use TimeoutError",
    "collections.ChainMap": "use {**b, **a}",
    "collections.OrderedDict": "use a dict, which keeps its order",
    "collections.abc": "use typing, or no annotation",
    "dataclasses.asdict": "write the dict itself; a value of the program shows an object as its attributes",
    "dataclasses.replace": "make a new object",
    "datetime.UTC": "use timezone.utc",
    "datetime.date": "call it on a value",
    "datetime.date.fromtimestamp": "use (datetime(1970, 1, 1) + timedelta(seconds=n)).date()",
    "datetime.datetime": "call it on a value",
    "datetime.datetime.fromtimestamp": "use datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=n)",
    "datetime.datetime.today": "use datetime.now()",
    "datetime.datetime.utcfromtimestamp": "use datetime(1970, 1, 1) + timedelta(seconds=n)",
    "datetime.datetime.utcnow": "use datetime.now(timezone.utc)",
    "datetime.tzinfo": "use timezone",
    "functools.cached_property": "write a plain method",
    "functools.cmp_to_key": "sort with key=...",
    "functools.wraps": "leave it out",
    "json.JSONDecoder": "use json.loads",
    "json.JSONEncoder": "use json.dumps of plain values",
    "os": "nothing of this machine is here, use a tool",
    "os.environ": "there is no environment, write the value into the program",
    "os.getenv": "there is no environment, write the value into the program",
    "os.path": "nothing of this machine is here, use a tool",
    "pathlib": "use Path",
    "pathlib.Path": _NO_FILES,
    "re.U": "leave it out",
    "re.UNICODE": "leave it out",
    "re.VERBOSE": "begin the pattern with (?x)",
    "re.X": "begin the pattern with (?x)",
    "re.subn": "use re.sub, and len(re.findall(...))",
    "sys.exit": "end with an expression, and use if and else for the rest",
    "sys.stderr": "use print",
    "sys.stdin": "a program has no input, write it into the program",
    "sys.stdout": "use print",
    "typing": "use Any, or no annotation",
    "typing.NamedTuple": "use a @dataclass, or collections.namedtuple",
    "typing.TypedDict": "use dict[str, Any]",
    "typing.cast": "leave it out",
}
"""What to write in the place of a member that is lacking, or of any other of its module."""

_KEYWORDS = _sets(
    {
        "asyncio.gather": "",
        "dataclasses.dataclass": "eq frozen init",
        "dataclasses.field": "default default_factory",
        "json.dump": "allow_nan ensure_ascii indent separators skipkeys sort_keys",
        "json.dumps": "allow_nan ensure_ascii indent separators skipkeys sort_keys",
        "json.load": "parse_float parse_int",
        "json.loads": "parse_float parse_int",
    }
)
"""The keywords that some functions take here."""

_INSTEAD_OF_KEYWORD = {
    "asyncio.gather": 'use await parallel([...], errors="return")',
    "dataclasses.dataclass.order": "sort with key=...",
    "json.dumps": "convert the values first, as with str(x) or sorted(x)",
    "json.loads": "convert the values afterwards",
    "json.loads.strict": "leave it out",
}

# -- names, and what values have -----------------------------------------------------------------

_INSTEAD_OF_NAME = {
    **dict.fromkeys(("eval", "exec", "compile", "__import__", "__builtins__"), "write the code itself"),
    **dict.fromkeys(("globals", "locals", "vars"), "use a dict"),
    **dict.fromkeys(("exit", "quit", "SystemExit"), "end with an expression, and use if and else for the rest"),
    **dict.fromkeys(("staticmethod", "classmethod", "super"), "write a function"),
    **dict.fromkeys(("bytearray", "memoryview"), "use bytes, or a list"),
    **dict.fromkeys(("aiter", "anext"), "await the list, then use for"),
    **dict.fromkeys(("breakpoint", "help"), "leave it out"),
    **dict.fromkeys(
        (
            "BaseExceptionGroup BlockingIOError BrokenPipeError BufferError ChildProcessError ConnectionAbortedError "
            "ConnectionRefusedError ConnectionResetError EOFError ExceptionGroup FloatingPointError "
            "GeneratorExit IndentationError InterruptedError ProcessLookupError ReferenceError RuntimeWarning "
            "StopAsyncIteration SystemError TabError UnicodeError UnicodeTranslateError UserWarning Warning"
        ).split(),
        "use Exception",
    ),
    "ascii": "use repr",
    "callable": "use isinstance",
    "delattr": "use a dict, and d.pop(key)",
    "dir": "use sorted(d) for the keys of a dict",
    "input": "nobody can be asked",
    "issubclass": "use isinstance",
    "open": _NO_FILES,
}
"""Builtins that a worker lacks, and what to do instead."""

_INSTEAD_OF_ATTRIBUTE = {
    "add_note": "put it into the text of the error",
    "as_integer_ratio": "compute it",
    "from_bytes": "compute it: sum(b << 8 * i for i, b in enumerate(reversed(data)))",
    "bit_count": "use bin(n).count('1')",
    "bit_length": "use len(bin(abs(n))) - 2",
    "difference_update": "use a -= b",
    "endpos": "use m.end()",
    "format_map": "use format(**d)",
    "fromisocalendar": "use strptime(text, '%G-W%V-%u')",
    "groupindex": "use m.groupdict()",
    "lastgroup": "use m.groupdict()",
    "lastindex": "use m.groups()",
    "fromtimestamp": "use datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=n)",
    "intersection_update": "use a &= b",
    "is_integer": "use x == int(x)",
    "isocalendar": "use strftime('%G-W%V-%u')",
    "maketrans": "use str.replace, or a dict: ''.join(d.get(c, c) for c in text)",
    "subn": "use re.sub, and len(re.findall(...))",
    "symmetric_difference_update": "use a ^= b",
    "timetuple": "use strftime",
    "to_bytes": "compute it",
    "toordinal": "use (day - date(1, 1, 1)).days + 1",
    "translate": "use str.replace, or a dict: ''.join(d.get(c, c) for c in text)",
    "utcfromtimestamp": "use datetime(1970, 1, 1) + timedelta(seconds=n)",
    "utcnow": "use datetime.now(timezone.utc)",
    "with_traceback": "leave it out",
}
"""Methods that nothing in a worker has."""

_OF_FILES = frozenset(
    "absolute chmod cwd exists expanduser glob home is_dir is_file is_symlink iterdir lstat mkdir open read_bytes "
    "read_text readlink rename resolve rglob rmdir samefile stat symlink_to touch unlink walk write_bytes "
    "write_text".split()
)
_OF_PATHS = {
    "parents": "use .parent",
    "relative_to": "use str(p).removeprefix('folder/')",
    "is_relative_to": "use str.startswith",
}

_INSTEAD_OF_SPECIAL = {
    "__class__": "use type(x)",
    "__contains__": "use in",
    "__dict__": "write a dict of what you need",
    "__getitem__": "use lambda key: x[key]",
    "__iter__": "use iter(x)",
    "__len__": "use len(x)",
    "__next__": "use next(x)",
    "__or__": "use a lambda",
}
_SPECIAL_METHODS = frozenset(
    f"__{name}__"
    for name in (
        "init post_init repr str eq ne hash call getitem setitem contains iter next enter exit int float index abs "
        "round neg pos invert add sub mul matmul truediv floordiv mod pow lshift rshift and or xor radd rsub rmul "
        "rmatmul rtruediv rfloordiv rmod rpow rlshift rrshift rand ror rxor"
    ).split()
)
"""The special methods of a class that are called here."""

_OWNERS: Mapping[object, str] = {
    **dict.fromkeys(("append", "extend", "insert", "remove", "sort"), "list"),
    **dict.fromkeys(("get", "items", "keys", "pop", "setdefault", "update", "values"), "dict"),
    **dict.fromkeys(("encode", "join", "lower", "split", "splitlines", "startswith", "strip", "upper"), "str"),
}
"""Methods that programs ask for to know what a value is, which ``hasattr`` does not see, and whose they are."""

_NODES = {
    "Yield": "there is no yield here: build a list and return it",
    "YieldFrom": "there is no yield here: build a list and return it",
    "AsyncWith": "there is no async with here: await the calls themselves",
    "AsyncFor": "there is no async for here: await the list, then use for",
    "Delete": "there is no del here: use d.pop(key), xs.pop(i), or leave it",
    "TryStar": "there is no except* here: use except",
    "TypeAlias": "there are no type aliases here: leave it out",
}
"""What a worker's Python lacks, by the kind of node; some are of a newer Python than the one that reads it here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a program: its line, from 1 on (0: the whole), and what to change."""

    line: int
    text: str

    def __str__(self) -> str:
        """One line of an error."""
        return f"line {self.line}: {self.text}" if self.line else self.text


def lacking(tree: ast.Module, nodes: Sequence[ast.AST], names: Names) -> Iterator[Finding]:
    """Yield what a program uses and a worker lacks, with what to write instead; ``nodes`` are all of its tree."""
    yield from _returns(tree)
    for node in nodes:
        kind = type(node)
        if node in names.annotations:
            continue
        if text := _NODES.get(kind.__name__):
            yield _at(node, text)
        if check := _CHECKS.get(kind):
            yield from check(node, names)


def _at(node: ast.AST, text: str) -> Finding:
    return Finding(getattr(node, "lineno", 0), text)


def _returns(tree: ast.Module) -> Iterator[Finding]:
    """Yield each return outside of functions, but for one that is the last statement."""
    waiting: list[ast.AST] = list(tree.body)
    if waiting and isinstance(waiting[-1], ast.Return):
        waiting.pop()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            yield _at(node, "return is outside of a function: write async def main(): ... and end with await main()")
        elif not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            waiting.extend(each for each in ast.iter_child_nodes(node) if isinstance(each, _WITH_STATEMENTS))


def _import(node: ast.Import, _names: Names) -> Iterator[Finding]:
    for alias in node.names:
        if alias.name.partition(".")[0] == TOOLS:
            yield _at(node, f"import tools by name: from {TOOLS} import server__tool")
        elif not _is_module(alias.name):
            yield _at(node, _no_module(alias.name))


def _import_from(node: ast.ImportFrom, names: Names) -> Iterator[Finding]:
    module = node.module or ""
    if module == TOOLS and not node.level:
        if any(alias.name == "*" for alias in node.names):
            yield _at(node, f"import tools by name: from {TOOLS} import server__tool")
    elif node.level or not (_is_module(module) or module == FUTURE):
        yield _at(node, _no_module("." * node.level + module))
    elif any(alias.name == "*" for alias in node.names):
        yield _at(node, f"import what you need by name: from {module} import name")
    elif (members := _MEMBERS.get(module)) is not None and node.lineno not in names.reckoned:
        yield from (_at(each, _no_member(module, each.name)) for each in node.names if each.name not in members)


def _is_module(name: str) -> bool:
    return name in _WHOLE or (name in _MEMBERS and "." not in name)


def _no_module(name: str) -> str:
    instead = _INSTEAD_OF_MODULE.get(name) or _INSTEAD_OF_MODULE.get(name.partition(".")[0])
    return f"there is no module {truncate(one_line(name), _NAME_MAX)!r} here" + (f": use {instead}" if instead else "")


def _no_member(path: str, name: str) -> str:
    instead = _INSTEAD_OF_MEMBER.get(f"{path}.{name}") or _INSTEAD_OF_MEMBER.get(path)
    return f"{path} has no {truncate(name, _NAME_MAX)} here" + (f": {instead}" if instead else "")


def _name(node: ast.Name, names: Names) -> Iterator[Finding]:
    if instead := _INSTEAD_OF_NAME.get(names.builtin(node)):
        yield _at(node, f"there is no {node.id} here: {instead}")


def _attribute(node: ast.Attribute, names: Names) -> Iterator[Finding]:
    if node.attr in names.asked or node.lineno in names.reckoned:
        return
    path = names.path(node.value)
    if (members := _MEMBERS.get(path)) is not None:
        if node.attr not in members:
            yield _at(node, _no_member(path, node.attr))
    elif isinstance(node.value, ast.Name) and node.value.id in names.errors and not _is_of_error(node.attr):
        yield _at(node, f"an error has no {node.attr} here: use str({node.value.id})")
    elif not path and node.attr not in names.members and (instead := _instead_of_attribute(node, names)):
        yield _at(node, f"there is no {node.attr} here: {instead}")


def _instead_of_attribute(node: ast.Attribute, names: Names) -> str:
    name = node.attr
    if name == "__name__":
        is_function = isinstance(node.value, ast.Name) and node.value.id in names.functions
        return "write the name itself" if is_function else ""
    if _is_special(name):
        return "" if names.has_classes and name != "__dict__" else _INSTEAD_OF_SPECIAL.get(name, "leave it out")
    if names.has_paths and (name in _OF_FILES or name in _OF_PATHS):
        return _OF_PATHS.get(name, _NO_FILES)
    return _INSTEAD_OF_ATTRIBUTE.get(name, "")


def _call(node: ast.Call, names: Names) -> Iterator[Finding]:
    path = names.path(node.func)
    for each in node.keywords if path in _KEYWORDS else ():
        if each.arg and each.arg not in _KEYWORDS[path]:
            instead = _INSTEAD_OF_KEYWORD.get(f"{path}.{each.arg}") or _INSTEAD_OF_KEYWORD.get(path, "leave it out")
            yield _at(node, f"{path} takes no {each.arg} here: {instead}")
    if name := names.builtin(node.func):
        yield from _call_of_builtin(node, name, names)
    elif path == "json.JSONDecodeError":
        yield from _error(node, path)
    elif _replaces_by_function(node, path, names):
        yield _at(node, "sub takes no function here: loop over re.finditer and join the pieces")


def _call_of_builtin(node: ast.Call, name: str, names: Names) -> Iterator[Finding]:
    if name == "object":
        yield _at(node, "there is no object() here: use None, or a text")
    elif name in ("hasattr", "getattr"):
        asked = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else None
        if (kind := _OWNERS.get(asked)) and asked not in names.members:
            yield _at(node, f"{name} sees no methods here: use isinstance(x, {kind}), and call x.{asked}(...) itself")
    elif name == "isinstance" and (path := _of_typing(node, names)):
        yield _at(node, f"isinstance takes no {path} here: use list, dict, or a tuple of such")
    elif is_exception(name):
        yield from _error(node, name)


def _error(node: ast.Call, name: str) -> Iterator[Finding]:
    if len(node.args) > 1 or any(isinstance(each, ast.Starred) for each in node.args):
        yield _at(node, f"{name} takes one text here: use an f-string")


def is_exception(name: str) -> bool:
    """Return whether a name is that of an error which every program has."""
    kind: Any = getattr(builtins, name, None)
    return name == ERROR or (isinstance(kind, type) and issubclass(kind, BaseException))


def _of_typing(node: ast.Call, names: Names) -> str:
    kinds = [each for argument in node.args[1:] for each in (argument, *ast.iter_child_nodes(argument))]
    return next((path for each in kinds if (path := names.path(each)).startswith("typing.")), "")


def _replaces_by_function(node: ast.Call, path: str, names: Names) -> bool:
    """Return whether ``re.sub``, or ``sub`` of a pattern, is given a function for what it replaces."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "sub" or "sub" in names.members:
        return False
    at = 1 if path == "re.sub" else 0
    given = [each.value for each in node.keywords if each.arg == "repl"] + node.args[at : at + 1]
    return any(
        isinstance(each, ast.Lambda)
        or (isinstance(each, ast.Name) and each.id in names.functions)
        or (isinstance(each, ast.Attribute) and names.builtin(each.value) == "str")
        for each in given
    )


def _subscript(node: ast.Subscript, names: Names) -> Iterator[Finding]:
    path = names.path(node.value)
    if path in ("typing.Dict", "typing.FrozenSet", "typing.List", "typing.Set", "typing.Tuple", "typing.Type"):
        yield _at(node, f"{path} is for annotations here: use {path.removeprefix('typing.').lower()}")


def _class(node: ast.ClassDef, _names: Names) -> Iterator[Finding]:
    if node.bases or node.keywords:
        yield _at(node, "classes cannot inherit here: use functions, a @dataclass, or a dict")
    for each in node.body:
        if isinstance(each, FUNCTIONS):
            if each.decorator_list:
                yield _at(each, "methods have no decorators here: write a plain method or a function")
            if _is_special(each.name) and each.name not in _SPECIAL_METHODS:
                yield _at(each, f"{each.name} is never called here: {_instead_of_special_method(each.name)}")
        elif not _is_plain_in_class(each):
            yield _at(each, "a class has only methods and name = value here, each in a line of its own")


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _instead_of_special_method(name: str) -> str:
    return "sort with key=..." if name in ("__lt__", "__le__", "__gt__", "__ge__") else "write a plain method"


def _is_plain_in_class(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign(target=ast.Name()) | ast.Pass():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case _:
            return False


def _is_of_error(attribute: str) -> bool:
    # What has two underscores, or is lacking everywhere, is told of by its name.
    return attribute == "args" or attribute.startswith("__") or attribute in _INSTEAD_OF_ATTRIBUTE


def _function(node: ast.AST, _names: Names) -> Iterator[Finding]:
    if getattr(node, "type_params", None):
        yield _at(node, "there are no type parameters here: leave them out")


_CHECKS: Mapping[type[ast.AST], Callable[[Any, Names], Iterator[Finding]]] = {
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.ClassDef: _class,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
}
