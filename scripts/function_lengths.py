"""Measures functions: a brace scanner for C++ and TypeScript, `ast` for Python, a pattern for Bash.

A function counts with its outermost body, from the line of its opening brace to that of the closing
one; lambdas belong to the function around them. A class or namespace is a scope, never a function, and
so is the callback of `describe` in a TypeScript test.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from checklib import CPP_SUFFIXES, TYPESCRIPT_SUFFIXES, blank_cpp, blank_typescript, line_of


@dataclass(frozen=True)
class Function:
    name: str
    line: int
    length: int


def measure(file: Path, text: str) -> list[Function]:
    if file.suffix in CPP_SUFFIXES:
        return _braces(_without_preprocessor(blank_cpp(text)), _cpp_kind)
    if file.suffix == ".svelte":
        return _braces(blank_typescript(_only_scripts(text)), _typescript_kind)
    if file.suffix in TYPESCRIPT_SUFFIXES:
        return _braces(blank_typescript(text), _typescript_kind)
    if file.suffix == ".py":
        return _python(text)
    if file.suffix == ".sh":
        return _bash(text)
    return []


_PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_NOT_NEWLINE = re.compile(r"[^\n]")
_SCRIPT = re.compile(r"(<script[^>]*>)(.*?)(</script>)", re.DOTALL)


def _without_preprocessor(text: str) -> str:
    return _PREPROCESSOR.sub(lambda match: _NOT_NEWLINE.sub(" ", match.group()), text)


def _only_scripts(text: str) -> str:
    kept = list(_NOT_NEWLINE.sub(" ", text))
    for match in _SCRIPT.finditer(text):
        kept[match.start(2):match.end(2)] = match.group(2)
    return "".join(kept)


# What an opening brace starts, judged by the text before it. "value": an initializer or an object,
# after which the same declaration goes on.

_TEMPLATE = re.compile(r"^\s*template\s*<[^{]*?>(?=\s*(?:class|struct|union|\w|\[))", re.DOTALL)
_LABEL = re.compile(r"^\s*(?:(?:public|private|protected)\s*:|\[\[[^\]]*\]\])\s*")
_CPP_SCOPE = re.compile(r"^\s*(?:inline\s+)?(?:typedef\s+)?(?:namespace|class|struct|union|enum|extern)\b")
_OPEN_END = re.compile(r"(?:[=,(\[{?]|\breturn)\s*$")
_NAME = re.compile(r"([\w:~.$]+)\s*(?:<[^()]*>)?\s*\(([^()]*)\)?")


def _cpp_kind(header: str, spaced: bool) -> str:
    header = _TEMPLATE.sub("", _LABEL.sub("", header))
    header = _LABEL.sub("", header)
    if _CPP_SCOPE.match(header) and "(" not in header:
        return "scope"
    if not spaced or _OPEN_END.search(header):
        return "value"
    return "function" if ")" in header else "value"


_TYPESCRIPT_SCOPE = re.compile(
    r"^\s*(?:export\s+)?(?:default\s+)?(?:abstract\s+)?(?:declare\s+)?(?:class|interface|enum|namespace)\b"
    r"|^\s*(?:test\.)?describe(?:\.\w+)?\s*\(")
_TYPESCRIPT_VALUE = re.compile(r"(?:[=,(\[{?:|&]|\breturn|\bimport|\bexport|\btype)\s*$")


def _typescript_kind(header: str, _spaced: bool) -> str:
    if _TYPESCRIPT_SCOPE.search(header):
        return "scope"
    if header.rstrip().endswith("=>"):
        return "function"
    if _TYPESCRIPT_VALUE.search(header):
        return "value"
    return "function" if ")" in header else "value"


def _name_of(header: str) -> str:
    """`Class::method`, or `TEST(Suite, Name)` with its arguments."""
    match = _NAME.search(header)
    if match is None:
        words = re.findall(r"[\w$]+", header)
        return next((word for word in words if word not in ("export", "const", "async")), "(unnamed)")
    name = match.group(1)
    if name.isupper() or name in ("test", "it"):
        return f"{name}({' '.join(match.group(2).split())})"
    if name in ("const", "async", "let"):
        return (re.findall(r"\b(?:const|let)\s+([\w$]+)", header) or [name])[0]
    return name


def _braces(text: str, kind_of) -> list[Function]:
    found: list[Function] = []
    stack: list[tuple[str, int, str]] = []  # kind, offset of the brace, name
    header_start = 0
    for match in re.finditer(r"[{};]", text):
        at, mark = match.start(), match.group()
        in_code = any(kind in ("function", "value") for kind, _, _ in stack)
        if mark == "{":
            header = text[header_start:at]
            kind = "inner" if in_code else kind_of(header, text[at - 1:at].isspace())
            stack.append((kind, at, _name_of(header) if kind == "function" else ""))
            if kind == "scope":
                header_start = at + 1
        elif mark == "}" and stack:
            kind, start, name = stack.pop()
            if kind == "function":
                first, last = line_of(text, start), line_of(text, at)
                found.append(Function(name, first, last - first + 1))
            if kind in ("function", "scope"):
                header_start = at + 1
        elif mark == ";" and not in_code:
            header_start = at + 1
    return found


def _python(text: str) -> list[Function]:
    found: list[Function] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (child.end_lineno or child.lineno) - child.lineno + 1
                found.append(Function(prefix + child.name, child.lineno, length))
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    visit(ast.parse(text), "")
    return found


_BASH_FUNCTION = re.compile(r"^([\w-]+)\(\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def _bash(text: str) -> list[Function]:
    return [Function(match.group(1), line_of(text, match.start()), match.group().count("\n") + 1)
            for match in _BASH_FUNCTION.finditer(text)]
