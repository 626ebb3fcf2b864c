"""Checks that every folder uses only the folders it may: includes, CMake links, the page's imports
(page_layers.py holds the page's table).

A row of the tables below lists exactly what its module needs besides itself: another use is a finding,
and so is an entry that nothing uses. A module that is missing from a table does not exist yet and must be
added there. docs/architecture.md describes the layers.
"""

import re
import sys
from pathlib import Path, PurePosixPath

from checklib import (CPP_SUFFIXES, TYPESCRIPT_SUFFIXES, Finding, blank_cpp, line_of, list_files,
                      parse_root, read, report)
from page_layers import ROOMS, SOURCE, PageChecker

TABLES = Path("scripts/check_layers.py")

# --- C++: module -> modules that it includes or links -------------------------------------------

ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "dtypes": {"base"},
    "mesh": {"base"},
    "expr": {"base"},
    "tokenize": {"base"},
    "comm": {"base", "mesh"},
    "watchdog": {"base", "comm"},
    "eval": {"base", "dtypes", "expr"},
    "graph": {"base", "expr", "points"},
    "points": {"base", "mesh"},
    "protocol": {"base"},
    "config": {"base", "mesh"},
    "hf": {"base", "config", "protocol"},
    "trace": {"base", "comm", "eval", "mesh", "points", "protocol"},
    "nn": {"base", "comm", "config", "dtypes", "mesh", "points", "trace"},
    "data": {"base", "tokenize"},
    "optim": {"config"},
    "checkpoint": {"base", "dtypes", "mesh", "protocol", "trace"},
    "intervene": {"base", "comm", "eval", "expr", "graph", "mesh", "points", "protocol",
                  "trace"},
    "record": {"base", "protocol"},
    "model": {"base", "config", "dtypes", "nn", "points", "trace"},
    "link": {"base", "config", "protocol", "trace"},
    "hub": {"base", "protocol", "record"},
    "control": {"base", "comm", "config", "data", "link", "protocol", "trace"},
    "attach": {"base", "checkpoint", "comm", "control", "data", "dtypes", "intervene", "mesh",
               "points", "trace", "vectors"},
    "generate": {"base", "comm", "config", "model", "nn", "trace"},
    "train": {"base", "checkpoint", "comm", "config", "control", "data", "dtypes", "generate", "hf",
              "mesh", "model", "nn", "optim", "points", "trace"},
    "vectors": {"base", "comm", "data", "model", "nn", "points", "trace", "train"},
    "cli": {"base", "checkpoint", "comm", "config", "control", "data", "dtypes", "generate", "hf", "hub",
            "intervene",
            "link", "mesh", "model", "points", "protocol", "record", "tokenize", "trace", "train",
            "vectors", "watchdog"},
}

# Modules that know no libtorch, so that the hub starts in milliseconds and runs anywhere.
TORCH_FREE = {"base", "mesh", "expr", "config", "points", "graph", "hf", "protocol", "record",
              "hub", "tokenize"}

# header pattern -> (the modules that may include it, why the others may not)
EXTERNAL: list[tuple[re.Pattern[str], set[str], str]] = [
    (re.compile(r"torch/(torch|all|nn)\.h|torch/nn/"), set(),
     "this header costs 13-30 s per file; include what is used"),
    (re.compile(r"(ATen|torch|c10|caffe2)/"), set(ALLOWED) - TORCH_FREE,
     "this module knows no libtorch"),
    (re.compile(r"boost/(beast|asio)"), {"hub", "link"}, "only hub and link open sockets"),
    (re.compile(r"boost/unordered/"), {"hub", "protocol", "tokenize"},
     "only hub, protocol and tokenize use Boost's tables"),
    (re.compile(r"boost/(?!unordered/)"), {"hub", "protocol"}, "only hub and protocol use the rest of Boost"),
    (re.compile(r"mpi\.h"), {"comm"}, "only comm knows MPI"),
    (re.compile(r"pcre2\.h|utf8proc\.h"), {"tokenize"}, "only tokenize knows these libraries"),
    (re.compile(r"sqlite3\.h|SQLiteCpp/"), {"record"}, "only record knows SQLite"),
]

# CMake targets of libtorch and MPI, and the word of tt_library that links libtorch.
TORCH_TARGETS = {"TORCH", "tt_torch", "tt_torch_pch", "tt_use_torch"}
HELPER_TARGETS = {"tt_options", "tt_warnings", "tt_mpi", "tt_library",
                  "tt_group_sources"} | TORCH_TARGETS

# --- Debt: (file, module it should not use) -> why, and who removes it. Only ever shorter. ------

DEBT: dict[tuple[str, str], str] = {
}

# --------------------------------------------------------------------------------------------------

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_CMAKE_COMMENT = re.compile(r"#[^\n]*")
_CMAKE_TARGET = re.compile(r"\b(TORCH|tt_\w+)\b")
_HUB_LINKS = re.compile(r"target_link_libraries\(\s*tensor-tracer-hub\b([^)]*)\)")


class Checker:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.findings: list[Finding] = []
        self.used_debt: set[tuple[str, str]] = set()
        self.used: set[tuple[str, str]] = set()  # module, what it uses
        self.page = PageChecker(root)
        self.checked = 0

    def run(self) -> None:
        for file in list_files(self.root):
            top, name = file.parts[0], file.as_posix()
            if file.suffix in CPP_SUFFIXES and top in ("include", "src"):
                self.check_cpp(file)
            elif file.name == "CMakeLists.txt" and top == "src" and len(file.parts) > 2:
                self.check_cmake(file)
            elif file.suffix in TYPESCRIPT_SUFFIXES and name.startswith(SOURCE):
                self.checked += 1
                self.page.check(file)
        for file, used in sorted(set(DEBT) - self.used_debt):
            self.add(Path(file), 1, f"the debt entry for {used} is paid: remove it")
        has_tables = (self.root / TABLES).is_file()
        self.page.finish(has_tables)
        if has_tables:
            self.check_rows()

    def check_rows(self) -> None:
        for owner, row in ALLOWED.items():
            for used in sorted(row):
                if (owner, used) not in self.used:
                    self.add(TABLES, 1, f"module {owner} does not use {used}: remove it from its row")

    def add(self, file: Path, line: int, message: str) -> None:
        self.findings.append(Finding(file.as_posix(), line, message))

    def require(self, file: Path, line: int, owner: str, used: str, verb: str) -> None:
        """`owner` may use `used` by the table, or it is debt."""
        self.used.add((owner, used))
        if used == owner or used in ALLOWED[owner]:
            return
        if (file.as_posix(), used) in DEBT:
            self.used_debt.add((file.as_posix(), used))
            return
        self.add(file, line, f"{owner} must not {verb} {used}")

    # --- C++ ---

    def check_cpp(self, file: Path) -> None:
        self.checked += 1
        is_public = file.parts[0] == "include"
        module = file.parts[2 if is_public else 1]
        if module not in ALLOWED:
            self.add(file, 1, f"module {module} is not in the table of check_layers.py")
            return
        text = blank_cpp(read(self.root, file), strings=False)
        for match in _INCLUDE.finditer(text):
            line = line_of(text, match.start())
            if match.group(1) == "<":
                self.check_external(file, line, module, match.group(2))
            else:
                self.check_own(file, line, module, match.group(2), is_public)

    def check_external(self, file: Path, line: int, module: str, header: str) -> None:
        for pattern, allowed, reason in EXTERNAL:
            if pattern.match(header):
                if module not in allowed:
                    self.add(file, line, f"{module} must not include <{header}>: {reason}")
                return

    def check_own(self, file: Path, line: int, module: str, header: str, is_public: bool) -> None:
        parts = PurePosixPath(header).parts
        if parts[0] == "tensor_tracer":
            self.require(file, line, module, parts[1], "include")
            if not (self.root / "include" / header).is_file():
                self.add(file, line, f"there is no include/{header}")
            return
        if is_public:
            self.add(file, line, f'include/ includes only include/, not "{header}"')
            return
        if parts[0] == "src" and parts[1] != module:
            self.add(file, line, f'"{header}" is private to {parts[1]}: use its public header')

    # --- CMake ---

    def check_cmake(self, file: Path) -> None:
        self.checked += 1
        module = file.parts[1]
        if module not in ALLOWED:
            self.add(file, 1, f"module {module} is not in the table of check_layers.py")
            return
        text = _CMAKE_COMMENT.sub("", read(self.root, file))
        for match in _CMAKE_TARGET.finditer(text):
            self.check_link(file, line_of(text, match.start()), module, match.group(1))
        for links in _HUB_LINKS.finditer(text):
            self.check_hub_program(file, line_of(text, links.start()), links.group(1))

    def check_link(self, file: Path, line: int, module: str, target: str) -> None:
        if target in TORCH_TARGETS and module in TORCH_FREE:
            self.add(file, line, f"{module} must not link libtorch ({target})")
        if target in HELPER_TARGETS:
            return
        used = target.removeprefix("tt_")
        used = used if used in ALLOWED else used.split("_")[0]
        if used in ALLOWED:
            self.require(file, line, module, used, "link")
        else:
            self.add(file, line, f"{target} belongs to no module of the table")

    def check_hub_program(self, file: Path, line: int, links: str) -> None:
        """Of the two programs of cli, the hub's links nothing that knows libtorch."""
        for target in _CMAKE_TARGET.findall(links):
            if target in HELPER_TARGETS - TORCH_TARGETS or target.startswith("tt_cli"):
                continue
            if target.removeprefix("tt_") not in TORCH_FREE:
                self.add(file, line, f"tensor-tracer-hub must not link {target}: no libtorch there")


def all_below(module: str, table: dict[str, set[str]]) -> set[str]:
    """What a module uses, also through others."""
    found: set[str] = set()
    open_ends = list(table[module])
    while open_ends:
        other = open_ends.pop()
        if other not in found:
            found.add(other)
            open_ends += table.get(other, ())
    return found


def check_tables() -> list[Finding]:
    """The tables must be sound themselves: no cycles, and no libtorch behind a torch-free module."""
    findings = []
    for table in (ALLOWED, ROOMS):
        for module in table:
            below = all_below(module, table)
            if module in below or below - table.keys():
                findings.append(Finding(TABLES.as_posix(), 1,
                                        f"the row of {module} is circular or names an unknown module"))
    for module in TORCH_FREE:
        for other in sorted(all_below(module, ALLOWED) - TORCH_FREE):
            findings.append(Finding(TABLES.as_posix(), 1,
                                    f"{module} knows no libtorch, so it cannot use {other}"))
    return findings


def main() -> int:
    checker = Checker(parse_root(__doc__ or ""))
    checker.run()
    return report("layers", check_tables() + checker.findings + checker.page.findings,
                  checker.checked)


if __name__ == "__main__":
    sys.exit(main())
