"""docs/known_defects.md has every id, and the tests that it names are there."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
IDS = [f"T{n}" for n in range(1, 29)] + [f"M{n}" for n in range(1, 25)]


def rows() -> dict[str, list[str]]:
    """The cells of each row by its id."""
    text = (REPOSITORY / "docs/known_defects.md").read_text()
    cells = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in text.splitlines() if re.match(r"\| [TM]\d", line)]  # fmt: skip
    found = {row[0]: row[1:] for row in cells}
    assert len(found) == len(cells), "an id stands there twice"
    return found


def is_there(path: str, name: str) -> bool:
    """Whether a file has a test of this name."""
    file = REPOSITORY / path
    if not file.is_file():
        return False
    text = file.read_text()
    if path.endswith(".py"):
        return re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE) is not None
    if path.endswith(".cpp"):
        suite, _, test = name.partition(".")
        return re.search(rf"^TEST(_F|_P)?\({suite}, {test}\)", text, re.MULTILINE) is not None
    return re.search(rf"\b(test|it)\(['\"`]{re.escape(name)}['\"`]", text) is not None


def test_every_id_has_a_row() -> None:
    assert list(rows()) == IDS
    for name, cells in rows().items():
        defect, here, tests = cells
        assert defect and here, name
        assert tests != "–" or here.startswith("Not applicable"), f"{name} has neither tests nor a reason"


@pytest.mark.parametrize("name", IDS)
def test_every_test_that_is_named_exists(name: str) -> None:
    named = re.findall(r"`([^`]+)`", rows()[name][2])
    assert named or rows()[name][2] == "–"
    for test in named:
        path, _, function = test.partition("::")
        assert is_there(path, function), test


def test_a_test_that_is_not_there_is_seen() -> None:
    here = "tests/scripts/test_known_defects.py"
    assert is_there(here, "test_every_id_has_a_row")
    for path, name in ((here, "test_every_id"), ("tests/scripts/nowhere.py", "test_every_id_has_a_row"),
                       ("tests/unit/expr/parse_test.cpp", "Parse.Nothing"),
                       ("frontend/src/base/fuzzy.test.ts", "a whole word")):  # fmt: skip
        assert not is_there(path, name), (path, name)
