"""check_classes.py finds a class in several .cpp files, and its ratchet only ever shrinks."""

import pytest

from conftest import Check

RATCHET = "scripts/class_ratchet.txt"
FIRST = "namespace tt::hub {\nRoom::Room(int x) : x_(x) {}\nint Room::x() const { return x_; }\n}\n"
SECOND = "namespace tt::hub {\nvoid Room::close() { x_ = 0; }\n}\n"
SPREAD = {"src/hub/room.cpp": FIRST, "src/hub/room_close.cpp": SECOND}


def test_a_class_in_one_file_passes(check: Check) -> None:
    files = {"src/hub/room.cpp": FIRST, "src/hub/room.h": "struct Room { int y() { return 1; } };\n",
             "src/hub/helper.cpp": "int f(const Room& room) { return room.x(); }\n",
             "src/link/room.cpp": SECOND}  # another module's class of this name
    result = check("check_classes.py", files)
    assert result.returncode == 0, result.stdout


def test_a_class_in_two_files_is_found(check: Check) -> None:
    result = check("check_classes.py", SPREAD)
    assert result.returncode == 1
    assert "src/hub/room_close.cpp:2: Room is defined in 2 .cpp files" in result.stdout


def test_a_nested_class_has_its_own_entry(check: Check) -> None:
    result = check("check_classes.py", {"src/a/x.cpp": "void A::B::f() {}\n",
                                        "src/a/sub/y.cpp": "A::B::~B() {}\n"})
    assert "A::B is defined in 2 .cpp files" in result.stdout
    assert "1 findings" in result.stdout


@pytest.mark.parametrize(("entry", "message"), [
    ("src/hub::Room 2", ""),
    ("src/hub::Room 1", "has grown to 2 .cpp files"),
    ("src/hub::Room 3", "has shrunk to 2 .cpp files"),
    ("src/hub::Room 2\nsrc/hub::Lease 2", "src/hub::Lease is in one file: remove it"),
])
def test_the_ratchet(check: Check, entry: str, message: str) -> None:
    result = check("check_classes.py", SPREAD | {RATCHET: f"# list\n{entry}\n"})
    assert result.returncode == (1 if message else 0)
    assert message in result.stdout
