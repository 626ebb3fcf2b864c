"""The page's half of check_layers.py: rooms and their imports, circles, and the two bundles.

A room is a folder of frontend/src. Every feature is one room, `features/*` in the table: features see core
and ui, never each other. They meet only in the lists `features/page.ts` and `features/worker.ts`.
"""

import re
from pathlib import Path

from checklib import TYPESCRIPT_SUFFIXES, Finding, blank_typescript, line_of, read

TABLES = Path("scripts/page_layers.py")
SOURCE = "frontend/src/"

# room -> the rooms that it imports besides itself; "." is src itself, "features" the two lists
ROOMS: dict[str, set[str]] = {
    "base": set(),
    "protocol": {"base"},
    "core/store": {"base", "protocol"},
    "core/worker": {"base", "protocol", "core/store"},
    "core/session": {"base", "protocol", "core/store", "core/worker"},
    "core/registry": {"base", "protocol", "core/store", "core/worker", "core/session"},
    "core/page": {"base", "protocol", "core/store", "core/worker", "core/session", "core/registry"},
    "ui": {"base", "protocol", "core/store", "core/session", "core/registry"},
    "shell": {"base", "protocol", "core/store", "core/session", "core/registry", "core/page", "ui"},
    "features/*": {"base", "protocol", "core/store", "core/worker", "core/session",
                   "core/registry", "ui"},
    "features": {"protocol", "core/store", "core/worker", "core/registry", "ui", "features/*"},
    ".": {"core/worker", "core/registry", "core/page", "ui", "shell", "features"},
}

# package -> rooms that may import it: below `core/session` the page is framework-free TypeScript
PACKAGES: dict[str, set[str]] = {
    "svelte": {"core/session", "core/registry", "core/page", "ui", "shell", "features/*", "."},
    "uplot": {"ui", "."},
    "fflate": {"features/*"},
}

# The entry of each bundle, and the rooms, files and endings whose code it must not hold.
BUNDLES: dict[str, set[str]] = {
    "worker.ts": {"core/session", "core/registry", "core/page", "ui", "shell", ".svelte"},
    "main.ts": {"core/worker/hub_worker.ts", "features/worker.ts"},
}

_IMPORT = re.compile(
    r"""(?P<type>\b(?:import|export)\s+type\b[^'"`;]*?\bfrom\s*|)"""
    r"""(?:\bfrom\s*|\bimport\s*(?P<later>\()?\s*|\bnew\s+URL\(\s*|(?<=from)\s*|(?<=from\s))"""
    r"""(["'])(?P<target>[^"'\n]+)\3""")


class PageChecker:
    """Collects the page's imports file by file, then judges them as a whole."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.findings: list[Finding] = []
        self.used: set[tuple[str, str]] = set()
        self.files: set[str] = set()
        # file -> (file that it imports, line, part of the same bundle)
        self.imports: dict[str, list[tuple[str, int, bool]]] = {}

    def check(self, file: Path) -> None:
        name = file.as_posix().removeprefix(SOURCE)
        self.files.add(name)
        room = room_of(name)
        if room not in ROOMS:
            self.add(name, 1, f"folder {room} is not in the page's table of page_layers.py")
            return
        text = blank_typescript(read(self.root, file), strings=False)
        for match in _IMPORT.finditer(text):
            line, target = line_of(text, match.start("target")), match["target"]
            if target.endswith(".css"):
                continue
            if target.startswith("."):
                is_code = not (match["type"] or match["later"] or "URL(" in match[0])
                self.check_import(file, name, line, target, is_code)
            elif room not in PACKAGES.get(target.split("/")[0], {room}):
                self.add(name, line, f"{room} must not import the package {target.split('/')[0]}")

    def check_import(self, file: Path, name: str, line: int, target: str, is_code: bool) -> None:
        path = (self.root / file.parent / target).resolve()
        top = (self.root / SOURCE).resolve()
        if not path.is_relative_to(top):
            # Files that are bundled as text are no code of the page.
            if "?raw" not in target and "*" not in target:
                self.add(name, line, f"{target} lies outside frontend/src")
            return
        used = path.relative_to(top).as_posix()
        self.imports.setdefault(name, []).append((used, line, is_code))
        owner, room = room_of(name), room_of(used)
        self.used.add((owner, room))
        is_other_feature = room == "features/*" == owner and feature_of(used) != feature_of(name)
        if room in ROOMS[owner] or (room == owner and not is_other_feature):
            return
        if is_other_feature:
            self.add(name, line, f"the feature {feature_of(name)} must not import "
                                 f"{feature_of(used)}: they meet in core or in the registry")
        else:
            self.add(name, line, f"{owner} must not import {room}")

    def finish(self, tables_too: bool) -> None:
        self.check_circles()
        for entry, others in BUNDLES.items():
            self.check_bundle(entry, others)
        for owner, row in ROOMS.items() if tables_too else []:
            for used in sorted(row):
                if (owner, used) not in self.used:
                    self.findings.append(Finding(TABLES.as_posix(), 1, f"folder {owner} does not "
                                                 f"use {used}: remove it from its row"))

    def check_circles(self) -> None:
        """Files that import each other, also as types only, are one file in two parts."""
        graph = {name: [other for used, _, _ in found if (other := self.file_at(used))]
                 for name, found in self.imports.items()}
        for circle in circles_of(graph):
            self.add(circle[0], 1, f"a circle of imports: {' <-> '.join(circle)}")

    def check_bundle(self, entry: str, others: set[str]) -> None:
        """What a bundle loads at once holds no code of the other side; types and chunks do not count."""
        open_ends, seen = [entry] if entry in self.files else [], set()
        while open_ends:
            name = open_ends.pop()
            if name in seen:
                continue
            seen.add(name)
            for used, line, is_code in self.imports.get(name, ()):
                other = self.file_at(used)
                if not is_code or other is None:
                    continue
                if {room_of(other), other, Path(other).suffix} & others:
                    self.add(name, line, f"{other} must not come into the bundle of {entry}")
                else:
                    open_ends.append(other)

    def file_at(self, used: str) -> str | None:
        return next((name for name in (used, f"{used}.ts") if name in self.files), None)

    def add(self, name: str, line: int, message: str) -> None:
        self.findings.append(Finding(SOURCE + name, line, message))


def room_of(name: str) -> str:
    parts = name.split("/")
    if len(parts) == 1:
        return "."
    if parts[0] == "core" and len(parts) > 2:
        return f"core/{parts[1]}"
    if parts[0] == "features" and len(parts) > 2:
        return "features/*"
    return parts[0]


def feature_of(name: str) -> str:
    return name.split("/")[1]


def circles_of(graph: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected parts of more than one file (Tarjan), each from its first name on."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph.get(name, ()):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] != order[name]:
            return
        part = stack[stack.index(name):]
        del stack[stack.index(name):]
        if len(part) > 1:
            circles.append(sorted(part))

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return circles
