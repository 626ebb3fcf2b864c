"""Pairs of verses: King James (1769) and World English Bible, as Debian packages them; both are public domain."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from errors import ExampleError

INSTALL = "sudo apt-get install sword-text-kjv sword-text-web diatheke"
ARCHAIC, MODERN = "engKJV2006eb", "engWEB2015eb"  # modules of SWORD
# By use. No book has two uses, so that no text is known from elsewhere.
BOOKS = {
    "extraction": ("Genesis", "I Samuel", "Isaiah", "Matthew", "Romans"),
    "choice": ("Joshua", "Luke"),
    "held_out": ("Exodus", "Jeremiah", "Mark"),
    "tuning": ("Numbers", "Deuteronomy", "Judges", "I Kings", "II Kings", "Ezekiel", "John", "Acts"),
    "validation": ("II Samuel", "Hebrews"),
}
_VERSE = re.compile(r"^(?P<book>[A-Z][A-Za-z ]*?) (?P<chapter>\d+):(?P<verse>\d+): ?(?P<text>.*)$")
_TITLE = re.compile(r"<title\b.*?</title>")
_LINE_BREAK = re.compile(r"<(?:l|lb|lg|milestone)\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
# Only the modern text has quotation marks; they are no trait of its language.
_MARKS = str.maketrans({"¶": " ", "“": "", "”": "", "‘": "", "’": "'"})

Place = tuple[str, int, int]  # book, chapter, verse


@dataclasses.dataclass(frozen=True)
class Pair:
    book: str
    chapter: int
    verse: int
    archaic: str
    modern: str


def clean(line: str) -> str:
    """Without markup and quotation marks. Where a footnote stood between two words, a space is put."""
    line = _TITLE.sub(" ", line).replace("</w><w", "</w> <w")
    return " ".join(_TAG.sub("", _LINE_BREAK.sub(" ", line)).translate(_MARKS).split())


def parse(output: str) -> dict[Place, str]:
    """The verses of an output of diatheke: `Luke 1:1: <w …>Forasmuch</w> …`, a line for each."""
    verses: dict[Place, str] = {}
    for line in output.splitlines():
        found = _VERSE.match(clean(line))
        if found and found["text"]:
            verses[found["book"], int(found["chapter"]), int(found["verse"])] = found["text"]
    return verses


def read_module(module: str, books: Iterable[str]) -> dict[Place, str]:
    program = shutil.which("diatheke")
    if program is None:
        raise ExampleError(f"the program diatheke is missing; install it with the texts: {INSTALL}")
    verses: dict[Place, str] = {}
    for book in books:
        line = [program, "-b", module, "-k", book]
        done = subprocess.run(line, capture_output=True, text=True, encoding="utf-8", check=False)
        found = parse(done.stdout)
        if not found:
            raise ExampleError(f"diatheke found no verse of {book} in the module {module}; install the texts: {INSTALL}")
        verses |= found
    return verses


def joined(archaic: dict[Place, str], modern: dict[Place, str]) -> list[Pair]:
    """In the order of the archaic text."""
    return [Pair(*place, text, modern[place]) for place, text in archaic.items() if place in modern]


def read_bibles() -> list[Pair]:
    books = [book for some in BOOKS.values() for book in some]
    return joined(read_module(ARCHAIC, books), read_module(MODERN, books))


def read_pairs(file: Path) -> list[Pair]:
    """From JSON lines with the members of Pair."""
    pairs = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            pairs.append(Pair(**json.loads(line)))
        except (ValueError, TypeError) as error:
            members = ", ".join(field.name for field in dataclasses.fields(Pair))
            raise ExampleError(f"line {number} of {file} is no pair ({error}); write an object with {members}") from None
    return pairs
