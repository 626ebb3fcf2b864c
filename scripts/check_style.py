"""Checks house rules that a pattern can see; what the formatter and the compiler see is theirs.

A line that must break a rule says why in a comment ending with `style: <rule>`, for example
`// placement into the ring's memory. style: new`.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from checklib import (CPP_SUFFIXES, TYPESCRIPT_SUFFIXES, Finding, blank_cpp, blank_typescript,
                      line_of, list_files, parse_root, read, report)

TEXT_SUFFIXES = CPP_SUFFIXES + TYPESCRIPT_SUFFIXES + (".css", ".py", ".sh", ".cmake")
TOPS = {"src", "include", "tests", "frontend", "scripts", "python", "examples", "cmake"}

# rule -> (pattern on code without comments and strings, what to do instead)
CODE_RULES: dict[str, tuple[re.Pattern[str], str]] = {
    "exit": (re.compile(r"(?<![\w.>:])(?<!void )(?:std::|::)?(?:exit|quick_exit|abort|terminate)\s*\("),
             "library code never ends the process: return an error or throw (docs/errors.md)"),
    "new": (re.compile(r"(?<!operator )\bnew\b\s*[\w:(<]"), "use make_unique or a container"),
    "delete": (re.compile(r"(?<!=)(?<!= )(?<!operator )\bdelete\b\s*(?:\[\s*\])?\s*[\w:(*]"),
               "let an owner delete it"),
    "mesh_dim": (re.compile(r"\b(?:tp_dim|pp_dim|dp_dim|mesh_dim)\b"),
                 "axis is of the mesh, dim of a tensor"),
    "instance": (re.compile(r"\binstance\(\)"), "no global objects: pass it in"),
}
HEADER_RULES: dict[str, tuple[re.Pattern[str], str]] = {
    "using": (re.compile(r"^[ \t]*using\s+namespace\b", re.MULTILINE),
              "no `using namespace` in a header"),
}
# What hub, protocol, record and expr must not have: they handle what viewers send.
_CLIENT_PATH = {"hub", "protocol", "record", "expr"}
_DYNAMIC_CODE = re.compile(
    r"(?<![\w.>:])(?:std::|::)?(?:system|popen|dlopen|dlmopen|exec[lv]p?e?)\s*\(|\bjit::load\b")
# TODO(name) and TODO(#12) have an owner; a bare one does not.
_TODO = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b(?!\([^)\s]+\))")
_GLOB = re.compile(r"\bfile\s*\(\s*GLOB", re.IGNORECASE)
_FIRST_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_FIRST_CODE = re.compile(r"\S[^\n]*")
_WAIVER = re.compile(r"style: ([\w, ]+)\s*(?:\*/)?$")
_CMAKE_COMMENT = re.compile(r"#[^\n]*")


class Source:
    """One file, and the findings in it."""

    def __init__(self, root: Path, file: Path) -> None:
        self.root, self.file = root, file
        self.text = read(root, file)
        self.lines = self.text.split("\n")

    def finding(self, offset: int, rule: str, message: str) -> Iterator[Finding]:
        line = line_of(self.text, offset)
        waiver = _WAIVER.search(self.lines[line - 1])
        if waiver is None or rule not in re.split(r"[, ]+", waiver.group(1)):
            yield Finding(self.file.as_posix(), line, f"{message} [{rule}]")

    def matches(self, text: str, rule: str, pattern: re.Pattern[str],
                advice: str) -> Iterator[Finding]:
        for match in pattern.finditer(text):
            yield from self.finding(match.start(), rule, f"`{match.group().strip()}`: {advice}")


def check_text(source: Source) -> Iterator[Finding]:
    yield from source.matches(source.text, "todo", _TODO, "give it an owner or an issue, or do it")


def excused_rules(file: Path) -> set[str]:
    """`cli` ends the process, that is its part; GoogleTest takes raw pointers and gives them back."""
    if file.parts[0] == "tests":
        return {"exit", "new", "delete"}
    return {"exit"} if file.parts[:2] == ("src", "cli") else set()


# make_unique cannot call a private constructor.
_OWNED_NEW = re.compile(r"(unique_ptr<[^;()]*>\s*\w*\(\s*)new\b")


def check_cpp(source: Source) -> Iterator[Finding]:
    code = _OWNED_NEW.sub(r"\1   ", blank_cpp(source.text))
    excused = excused_rules(source.file)
    for rule, (pattern, advice) in CODE_RULES.items():
        if rule not in excused:
            yield from source.matches(code, rule, pattern, advice)
    if set(source.file.parts[1:3]) & _CLIENT_PATH and source.file.parts[0] in ("src", "include"):
        yield from source.matches(code, "dynamic", _DYNAMIC_CODE,
                                  "nothing from outside is executed (SECURITY.md)")
    yield from check_include_roots(source)
    if source.file.parts[0] in ("src", "include"):
        yield from check_factories(source, code)
    if source.file.suffix == ".h":
        yield from check_header(source, code)
    elif source.file.parts[0] == "src":
        yield from check_own_header(source)


_FACTORY = re.compile(r"\bat::(?:arange|empty|eye|full|linspace|ones|rand\w*|scalar_tensor|tensor|zeros)"
                      r"(\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))")
_DEVICE = re.compile(r"device|options", re.IGNORECASE)


def check_factories(source: Source, code: str) -> Iterator[Finding]:
    """A tensor is made on the device of its operands, or on one that the call names."""
    for match in _FACTORY.finditer(code):
        if not _DEVICE.search(match.group(1)):
            yield from source.finding(match.start(), "device", "a factory names its device: "
                                      "x.options(), or at::device(at::kCPU).dtype(...)")


def check_header(source: Source, code: str) -> Iterator[Finding]:
    first = _FIRST_CODE.search(code)
    if first is None or first.group().strip() != "#pragma once":
        yield from source.finding(0, "once", "a header starts with #pragma once")
    for rule, (pattern, advice) in HEADER_RULES.items():
        yield from source.matches(code, rule, pattern, advice)


_ROOTS = ("src/", "tests/", "tensor_tracer/")
_QUOTED_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def check_include_roots(source: Source) -> Iterator[Finding]:
    """An include in quotes names the file from the root of the checkout or of include/."""
    for match in _QUOTED_INCLUDE.finditer(blank_cpp(source.text, strings=False)):
        if not match.group(1).startswith(_ROOTS):
            yield from source.finding(match.start(), "root", f'"{match.group(1)}": an include in '
                                      f"quotes starts with {', '.join(_ROOTS)}")


def check_own_header(source: Source) -> Iterator[Finding]:
    """src/m/x.cpp includes m's public x.h, or else its private one, before anything else."""
    inside = source.file.relative_to("src").with_suffix(".h")
    public = Path("tensor_tracer") / inside
    if (source.root / "include" / public).is_file():
        own = public.as_posix()
    elif (source.root / "src" / inside).is_file():
        own = (Path("src") / inside).as_posix()
    else:
        return
    first = _FIRST_INCLUDE.search(blank_cpp(source.text, strings=False))
    given = first.group(1) if first else "nothing"
    if given != own:
        yield from source.finding(first.start() if first else 0, "own",
                                  f'the own header "{own}" comes first, not "{given}"')


def check_cmake(source: Source) -> Iterator[Finding]:
    code = _CMAKE_COMMENT.sub("", source.text)
    yield from source.matches(code, "glob", _GLOB, "list sources by name")


_ANY = re.compile(r"(?::|\bas|<|,)\s*any\b(?=\s*[;,)>=\[{|&]|\s*$)", re.MULTILINE)
_DEFAULT_EXPORT = re.compile(r"^export default\b", re.MULTILINE)


def check_typescript(source: Source) -> Iterator[Finding]:
    if source.file.parts[:2] != ("frontend", "src"):
        return
    code = blank_typescript(source.text)
    yield from source.matches(code, "any", _ANY, "say what it is, or unknown")
    yield from source.matches(code, "default", _DEFAULT_EXPORT, "named exports only")


# A line height, after a slash, is no size.
_FONT_SIZE = re.compile(r"""(?<![\w-])font(?:-size)?\s*[:=]\s*["']?(?:[^;{}/"']*\s)?"""
                        r"\d[\d.]*(?:px|pt|r?em)\b")


def check_look(source: Source) -> Iterator[Finding]:
    """The page has one scale of text sizes."""
    yield from source.matches(source.text, "font", _FONT_SIZE,
                              "a size of the scale in frontend/src/app.css, such as var(--text-small)")


def check_file(root: Path, file: Path) -> Iterator[Finding]:
    source = Source(root, file)
    yield from check_text(source)
    if file.suffix in CPP_SUFFIXES:
        yield from check_cpp(source)
    elif file.suffix in TYPESCRIPT_SUFFIXES:
        yield from check_typescript(source)
    elif file.name == "CMakeLists.txt" or file.suffix == ".cmake":
        yield from check_cmake(source)
    if file.suffix in (".svelte", ".css"):
        yield from check_look(source)


def is_checked(file: Path) -> bool:
    return file.name == "CMakeLists.txt" or (
        file.suffix in TEXT_SUFFIXES and file.parts[0] in TOPS)


def main() -> int:
    root = parse_root(__doc__ or "")
    files = [file for file in list_files(root) if is_checked(file)]
    findings = [finding for file in files for finding in check_file(root, file)]
    return report("style", findings, len(files))


if __name__ == "__main__":
    sys.exit(main())
