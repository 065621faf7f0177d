"""What a grader's source may contain: an allow-list of syntax, imports, builtins and attributes, checked unrun."""

from __future__ import annotations

import ast
import string
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache

from claasbench.scenarios._sandbox import BUILTINS, ENTRY, HIDDEN, MODULES

LONGEST = 100_000  # characters; the longest known grader has 6 354

_NODES = """
    Module FunctionDef ClassDef Return Delete Assign AugAssign AnnAssign For While If With Raise Try Assert Import
    ImportFrom Global Nonlocal Expr Pass Break Continue Match BoolOp NamedExpr BinOp UnaryOp Lambda IfExp Dict Set
    ListComp SetComp DictComp GeneratorExp Yield YieldFrom Compare Call FormattedValue JoinedStr Constant Attribute
    Subscript Starred Name List Tuple Slice Load Store Del And Or Add Sub Mult MatMult Div Mod Pow LShift RShift BitOr
    BitXor BitAnd FloorDiv Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn comprehension ExceptHandler
    arguments arg keyword alias withitem match_case MatchValue MatchSingleton MatchSequence MatchMapping MatchStar
    MatchAs MatchOr
"""
NODES = frozenset(_NODES.split())
"""All of Python but async, except* (it walks exception groups) and class patterns (they read attributes)."""

INTERNALS = ("_", "gi_", "cr_", "ag_", "f_", "tb_", "co_")
"""How attributes begin that lead from a value to classes, frames and code."""


@lru_cache(maxsize=1024)  # the same grader judges every turn of its task
def refused(source: str) -> str | None:
    """Return why the grader `source` is not run; None: it may be."""
    if len(source) > LONGEST:
        return f"is longer than {LONGEST} characters"
    try:
        tree = _parse(source)
    except SyntaxError as error:
        return _unparsed(error)
    except (ValueError, RecursionError, MemoryError) as error:
        return f"does not parse: {type(error).__name__}"
    bound = set(_bound(tree))
    for node in ast.walk(tree):
        if reason := _objection(node, bound):
            return f"line {getattr(node, 'lineno', 1)}: {reason}"
    return None if any(map(_is_entry, tree.body)) else f"has no function {ENTRY}(a, b) at top level"


def imports(source: str) -> tuple[str, ...]:
    """Return the names of the modules that `source` imports, sorted; none where it does not parse."""
    try:
        tree = _parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = {name for node in ast.walk(tree) for name in _modules(node)}
    return tuple(sorted(found))


def _parse(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes: the grader's business
        return ast.parse(source)


def _unparsed(error: SyntaxError) -> str:
    text = error.text or ""
    in_fstring = error.msg.startswith("f-string") or any(f"f{quote}" in text.lower() for quote in "\"'")
    newer = "needs a newer Python (3.12), or " if in_fstring and sys.version_info < (3, 12) else ""
    return f"{newer}does not parse: line {error.lineno}: {error.msg}"


def _modules(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")] if isinstance(node, ast.ImportFrom) else []


def _identifiers(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        return
    for _, value in ast.iter_fields(node):
        yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))


def _bound(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Name):
            yield from () if isinstance(node.ctx, ast.Load) else (node.id,)
        elif not isinstance(node, ast.Attribute | ast.keyword | ast.ImportFrom):
            yield from _identifiers(node)


def _objection(node: ast.AST, bound: set[str]) -> str | None:
    if type(node).__name__ not in NODES:
        return f"{type(node).__name__} is not in the allowed syntax"
    private = next((name for name in _identifiers(node) if name.startswith("__")), None)
    if private and not _is_harmless(node, private):
        return f"the name {private}"
    match node:
        case ast.Import() | ast.ImportFrom():
            return _import(node)
        case ast.Attribute():
            return _attribute(node)
        case ast.Name(id=name, ctx=ast.Load()) if name not in bound and name not in BUILTINS:
            return f"the name {name} is neither its own nor an allowed builtin"
        case ast.Call(func=ast.Name(id="type")) if len(node.args) != 1 or node.keywords:
            return "type with other than one argument"
        case ast.ClassDef(keywords=[_, *_]):
            return "a class with keywords"
    return None


def _is_harmless(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.ImportFrom):
        return name == "__future__"
    return isinstance(node, ast.FunctionDef) and name == "__init__"


def _import(node: ast.Import | ast.ImportFrom) -> str | None:
    for name in _modules(node):
        if name not in MODULES:
            return f"the import of {name}"
    if isinstance(node, ast.ImportFrom):
        shown = MODULES[node.module or ""].split()
        for alias in node.names:
            if (shown and alias.name not in shown) or alias.name in HIDDEN or alias.name.startswith(("_", "*")):
                return f"the import of {node.module}.{alias.name}"
    return None


def _attribute(node: ast.Attribute) -> str | None:
    if node.attr.startswith(INTERNALS) or node.attr in HIDDEN or node.attr == "mro":
        return f"the attribute {node.attr}"
    if node.attr in ("format", "format_map"):
        text = node.value.value if isinstance(node.value, ast.Constant) else None
        if not isinstance(text, str) or not _is_plain(text):
            return f"{node.attr} of anything but a literal with plain fields"
    return None


def _is_plain(text: str) -> bool:
    try:
        fields = [(name, spec) for _, name, spec, _ in string.Formatter().parse(text) if name is not None]
    except ValueError:
        return False
    return all((not name or name.isidentifier() or name.isdigit()) and _is_plain(spec or "") for name, spec in fields)


def _is_entry(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.name != ENTRY:
        return False
    named = node.args
    count = len(named.posonlyargs) + len(named.args)
    return count - len(named.defaults) <= 2 <= count and None not in named.kw_defaults
