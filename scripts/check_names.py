"""Checks names against .clang-tidy: the house style's table of cases, prefixes and suffixes.

clang-tidy needs the compile commands of a configured build. By default the parts without libtorch are
checked, with their headers (a second or two per file); --all takes the others too (20 s each). A source
that was clean is not checked again until it, one of our headers that it includes, or .clang-tidy changes:
build/names has a file for each. So an interrupted check goes on where it stopped. With --minutes it stops
by itself: without findings, the exit code is then 77, not run, until all sources are clean.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NOT_RUN = 77  # for scripts/run_suites.py
_FOREIGN_FLAGS = re.compile(r"-Winvalid-pch|-fsanitize=\S+|-Wno-[\w-]+")
_INCLUDE = re.compile(r'^#include "(.*)"$', re.M)
_COMPLAINT = re.compile(r"^(.*?):(\d+):\d+: (?:error|warning): (.*)$")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--build", default="build/release", help="folder of compile_commands.json")
    parser.add_argument("--all", action="store_true", help="also what uses libtorch")
    parser.add_argument("--minutes", type=float, default=float("inf"),
                        help="begin no source after this time")
    return parser.parse_args()


def compile_commands(root: Path, build: str, everything: bool) -> list[dict[str, str]]:
    """Those of the project's own sources under src/ and tests/."""
    entries = [one for entry in json.loads((root / build / "compile_commands.json").read_text())
               for one in sources_of(root, entry)]
    own = [entry for entry in entries
           if Path(entry["file"]).is_relative_to(root)
           and Path(entry["file"]).relative_to(root).parts[0] in ("src", "tests")]
    return [entry for entry in own if everything or "/torch/include" not in entry["command"]]


def sources_of(root: Path, entry: dict[str, str]) -> list[dict[str, str]]:
    """The entry, or one for each source of a group (tt_group_sources in cmake/Library.cmake)."""
    path = Path(entry["file"])
    if path.parent.name != "groups":
        return [entry]
    return [entry | {"file": str(root / file)} for file in _INCLUDE.findall(path.read_text())]


def flags_of(command: str) -> list[str]:
    """What decides the meaning of the source: include folders, macros, the language. A precompiled
    header is left out: clang reads none of GCC's, and a source includes what it uses."""
    words = shlex.split(_FOREIGN_FLAGS.sub("", command))
    flags = []
    for word, following in zip(words, words[1:] + [""]):
        if word.startswith(("-I", "-D", "-std=")):
            flags.append(word)
        elif word == "-isystem":
            flags += [word, following]
    return flags


def complaints(root: Path, entry: dict[str, str]) -> set[str]:
    """`path:line: what` of one source and the headers of ours that it includes."""
    command = ["clang-tidy", "--quiet", f"--config-file={root / '.clang-tidy'}", entry["file"], "--",
               *flags_of(entry["command"])]
    result = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    found = set()
    for line in result.stdout.splitlines():
        match = _COMPLAINT.match(line)
        if match and Path(match.group(1)).is_relative_to(root):
            place = Path(match.group(1)).relative_to(root)
            found.add(f"{place}:{match.group(2)}: {match.group(3)}")
    if result.returncode != 0 and not found:
        output = (result.stdout + result.stderr).strip()
        found.add(f"{entry['file']}: clang-tidy failed: {output[-500:]}")
    return found


def own_files(root: Path, file: Path, seen: set[Path]) -> set[Path]:
    """The source and all headers of ours that it includes, also through others."""
    if file in seen:
        return seen
    seen.add(file)
    for name in _INCLUDE.findall(file.read_text()):
        for folder in (root / "include", root, file.parent):
            if (folder / name).is_file():
                own_files(root, (folder / name).resolve(), seen)
                break
    return seen


def key_of(root: Path, entry: dict[str, str]) -> str:
    """Changes with everything of ours that decides the complaints about a source."""
    digest = hashlib.sha256((root / ".clang-tidy").read_bytes())
    digest.update(repr(flags_of(entry["command"])).replace(str(root), "").encode())
    for file in sorted(own_files(root, Path(entry["file"]).resolve(), set())):
        digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def check(root: Path, entry: dict[str, str], end: float) -> set[str] | None:
    """The complaints about a source; none without a check if it was clean in this form before.
    None: it was not checked before `end`, a time of the monotonic clock."""
    kept = root / "build/names" / key_of(root, entry)
    if kept.exists():
        return set()
    if time.monotonic() >= end:
        return None
    found = complaints(root, entry)
    if not found:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.touch()
    return found


def main() -> int:
    options = parse_arguments()
    end = time.monotonic() + 60 * options.minutes
    root = options.root.resolve()
    entries = compile_commands(root, options.build, options.all)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda entry: check(root, entry, end), entries))
    found = set().union(*(result for result in results if result is not None))
    left = results.count(None)
    print("\n".join(sorted(found)))
    print(f"names: {len(entries)} sources, {len(found)} findings"
          + (f"; {left} sources are not checked yet, call this script again" if left else ""))
    if found or not entries:
        return 1
    return NOT_RUN if left else 0


if __name__ == "__main__":
    sys.exit(main())
