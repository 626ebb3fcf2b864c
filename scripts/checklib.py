"""Shared by the checks of this folder: listing files, blanking comments and strings, reporting."""

import argparse
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

CPP_SUFFIXES = (".h", ".cpp", ".cu", ".cuh")
TYPESCRIPT_SUFFIXES = (".ts", ".svelte", ".mjs", ".js")
SKIPPED_FOLDERS = {".git", ".venv", "build", "dist", "node_modules", "__pycache__", "runs"}


@dataclass(frozen=True, order=True)
class Finding:
    """One thing that is wrong, at one place."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def parse_root(description: str) -> Path:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: this checkout)")
    return parser.parse_args().root.resolve()


def report(name: str, findings: list[Finding], checked: int) -> int:
    """Prints the findings and returns the exit code. A check that saw no file has failed."""
    for finding in sorted(findings):
        print(finding)
    if checked == 0:
        print(f"{name}: found no file to check")
        return 1
    print(f"{name}: {checked} files, {len(findings)} findings")
    return 1 if findings else 0


def list_files(root: Path) -> list[Path]:
    """The tree's own files, relative to it: git's view where `root` is a checkout."""
    if (root / ".git").exists():
        command = ("git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard")
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        files = [Path(name) for name in names.split("\0") if name]
    else:
        files = []
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
            files += [(Path(folder) / name).relative_to(root) for name in names]
    return sorted({file for file in files if (root / file).is_file()})


def read(root: Path, file: Path) -> str:
    return (root / file).read_text(encoding="utf-8", errors="replace")


def read_ratchet(path: Path) -> dict[str, tuple[int, int]]:
    """key -> (allowed number, line in the list) of a file with lines `key number`; no file, no entry."""
    entries: dict[str, tuple[int, int]] = {}
    lines = path.read_text().splitlines() if path.is_file() else []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            key, allowed = line.rsplit(maxsplit=1)
            entries[key] = (int(allowed), number)
    return entries


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


_CPP_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'
    r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'", re.DOTALL)
# A template string is blanked as a whole, with what is computed inside it; so is a regular
# expression where only one can stand.
_TYPESCRIPT_TOKENS = re.compile(
    r"//[^\n]*|/\*.*?\*/|<!--.*?-->|`(?:\\.|\$\{(?:[^{}`]|`[^`]*`|\{[^{}]*\})*\}|[^`\\])*`"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|(?<=[(,=:!&|?;])\s*/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*", re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\n]")


def blank_cpp(text: str, strings: bool = True) -> str:
    """Spaces instead of comments and (if asked) strings; lines and offsets stay."""
    return _blank(_CPP_TOKENS, text, strings)


def blank_typescript(text: str, strings: bool = True) -> str:
    return _blank(_TYPESCRIPT_TOKENS, text, strings)


def _blank(tokens: re.Pattern[str], text: str, strings: bool) -> str:
    def spaces(match: re.Match[str]) -> str:
        is_comment = match.group().startswith(("//", "/*", "<!--"))
        return _NOT_NEWLINE.sub(" ", match.group()) if strings or is_comment else match.group()
    return tokens.sub(spaces, text)
