"""Checks that the member functions of a class are defined in one .cpp file.

A class that does not fit into a file is several classes. The exceptions stand in
scripts/class_ratchet.txt with their number of files: it may only shrink, and an entry that is no
longer needed must go.
"""

import sys
from collections import defaultdict
from pathlib import Path

from checklib import Finding, list_files, parse_root, read, read_ratchet, report
from function_lengths import measure

TOPS = {"src", "tests"}
RATCHET = "scripts/class_ratchet.txt"

Places = dict[str, dict[str, int]]  # class -> .cpp file -> line of its first member function there


def find_definitions(root: Path, files: list[Path]) -> Places:
    """A class is named `<folder>::<class>`; the folder is src/<module> or that of the test."""
    places: Places = defaultdict(dict)
    for file in files:
        folder = file.parts[:2] if file.parts[0] == "src" else file.parts[:-1]
        for function in measure(file, read(root, file)):
            name, separator, _ = function.name.rpartition("::")
            if separator and "(" not in name:
                key = f"{'/'.join(folder)}::{name}"
                places[key].setdefault(file.as_posix(), function.line)
    return places


def judge(files: int, allowed: int | None) -> str:
    """What is wrong with a class in several files; empty if its entry in the ratchet covers it."""
    if allowed is None:
        return f"is defined in {files} .cpp files: one class, one .cpp"
    if files > allowed:
        return f"has grown to {files} .cpp files, {RATCHET} allows {allowed}"
    if files < allowed:
        return f"has shrunk to {files} .cpp files: write that into {RATCHET}"
    return ""


def check(root: Path) -> tuple[list[Finding], int]:
    files = [file for file in list_files(root) if file.suffix == ".cpp" and file.parts[0] in TOPS]
    spread = {key: where for key, where in find_definitions(root, files).items() if len(where) > 1}
    ratchet, findings = read_ratchet(root / RATCHET), []
    for key, where in spread.items():
        message = judge(len(where), ratchet[key][0] if key in ratchet else None)
        if message:
            path, line = sorted(where.items())[-1]
            findings.append(Finding(path, line, f"{key.partition('::')[2]} {message}"))
    for key in ratchet.keys() - spread.keys():
        findings.append(Finding(RATCHET, ratchet[key][1], f"{key} is in one file: remove it"))
    return findings, len(files)


def main() -> int:
    return report("classes", *check(parse_root(__doc__ or "")))


if __name__ == "__main__":
    sys.exit(main())
