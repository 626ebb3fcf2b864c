"""Checks names against .clang-tidy: the house style's table of cases, prefixes and suffixes.

clang-tidy needs the compile commands of a configured build. By default the parts without libtorch are
checked, with their headers (a second or two per file); --all takes the others too (20 s each).
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_FOREIGN_FLAGS = re.compile(r"-Winvalid-pch|-fsanitize=\S+|-Wno-[\w-]+")
_INCLUDE = re.compile(r'^#include "(.*)"$', re.M)
_COMPLAINT = re.compile(r"^(.*?):(\d+):\d+: (?:error|warning): (.*)$")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--build", default="build/release", help="folder of compile_commands.json")
    parser.add_argument("--all", action="store_true", help="also what uses libtorch")
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


def main() -> int:
    options = parse_arguments()
    root = options.root.resolve()
    entries = compile_commands(root, options.build, options.all)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = set().union(*pool.map(lambda entry: complaints(root, entry), entries))
    print("\n".join(sorted(found)))
    print(f"names: {len(entries)} sources, {len(found)} findings")
    return 0 if entries and not found else 1


if __name__ == "__main__":
    sys.exit(main())
