"""How archaic a text is, by its words alone: a measure that does not depend on the vector."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORDS = frozenset(
    "thee thou thy thine thyself ye hath hast hadst doth dost didst shalt wilt unto saith spake thereof whither "
    "hither thence nay yea".split()
)
_NOT_VERBS = frozenset(("teeth", "heth", "beth", "meth"))
_WORD = re.compile(r"[A-Za-z]+")


def is_archaic(word: str) -> bool:
    """`word` has letters only. With a capital letter, a word with -eth may be a name, such as Elizabeth; with -tieth it
    is a number."""
    if word.lower() in _WORDS:
        return True
    return word.islower() and len(word) > 4 and word.endswith("eth") and not (word.endswith("tieth") or word in _NOT_VERBS)


def count(texts: Iterable[str]) -> tuple[int, int]:
    """Archaic words, and all words."""
    words = [word for text in texts for word in _WORD.findall(text)]
    return sum(map(is_archaic, words)), len(words)


def share(texts: Iterable[str]) -> float:
    """Of archaic words; 0 without words."""
    archaic, words = count(texts)
    return archaic / words if words else 0.0
