"""Checks that files and functions stay small enough to be read in one go.

A file has at most 600 lines. A function has at most 40 lines, in tests 100. A longer function stands
in scripts/size_ratchet.txt with its exact size: it may only shrink, an entry that is no longer needed
must go, and 100 lines are never exceeded.
"""

import sys
from pathlib import Path

from checklib import (CPP_SUFFIXES, TYPESCRIPT_SUFFIXES, Finding, list_files, parse_root, read,
                      read_ratchet, report)
from function_lengths import measure

SUFFIXES = CPP_SUFFIXES + TYPESCRIPT_SUFFIXES + (".py", ".sh")
TOPS = {"src", "include", "tests", "frontend", "scripts", "python", "examples"}
FILE_LIMIT = 600
FUNCTION_BUDGET, FUNCTION_LIMIT = 40, 100
RATCHET = "scripts/size_ratchet.txt"


def is_test(file: Path) -> bool:
    return (file.parts[0] == "tests" or "e2e" in file.parts
            or file.name.endswith((".test.ts", "_test.cpp")))


def oversized(root: Path, file: Path) -> list[tuple[str, int, int, int, int]]:
    """(key, line, size, budget, limit) of the file and of each function over the budget."""
    text = read(root, file)
    budget = FUNCTION_LIMIT if is_test(file) else FUNCTION_BUDGET
    sizes = [(file.as_posix(), 1, text.count("\n"), FILE_LIMIT, FILE_LIMIT)]
    for function in measure(file, text):
        key = f"{file.as_posix()}::{function.name}"
        sizes.append((key, function.line, function.length, budget, FUNCTION_LIMIT))
    return [size for size in sizes if size[2] > size[3]]


def judge(key: str, line: int, size: int, budget: int, limit: int, allowed: int | None) -> str:
    """What is wrong with one oversized thing; empty if its entry in the ratchet covers it."""
    what = key.split("::", 1)[1] + ": function" if "::" in key else "file"
    if size > limit:
        return f"{what} has {size} lines; {limit} is the limit, no exception may exceed it"
    if allowed is None:
        return f"{what} has {size} lines, the budget is {budget}"
    if size > allowed:
        return f"{what} has grown to {size} lines, {RATCHET} allows {allowed}"
    if size < allowed:
        return f"{what} has shrunk to {size} lines: write that into {RATCHET}"
    return ""


def check(root: Path) -> tuple[list[Finding], int]:
    ratchet, findings, needed = read_ratchet(root / RATCHET), [], set()
    files = [file for file in list_files(root)
             if file.suffix in SUFFIXES and file.parts[0] in TOPS]
    for file in files:
        for key, line, size, budget, limit in oversized(root, file):
            needed.add(key)
            allowed = ratchet[key][0] if key in ratchet else None
            message = judge(key, line, size, budget, limit, allowed)
            if message:
                findings.append(Finding(file.as_posix(), line, message))
    for key in ratchet.keys() - needed:
        findings.append(Finding(RATCHET, ratchet[key][1], f"{key} is within its budget: remove it"))
    return findings, len(files)


def main() -> int:
    return report("sizes", *check(parse_root(__doc__ or "")))


if __name__ == "__main__":
    sys.exit(main())
