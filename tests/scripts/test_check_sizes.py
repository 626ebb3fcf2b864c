"""check_sizes.py finds what is too large, and its ratchet only ever shrinks."""

from pathlib import Path

import pytest

from conftest import Check

RATCHET = "scripts/size_ratchet.txt"


def function(lines: int, head: str = "int f(int x)") -> str:
    return f"{head} {{\n" + "  ++x;\n" * (lines - 2) + "}\n"


def test_small_things_pass(check: Check) -> None:
    result = check("check_sizes.py", {"src/base/a.cpp": function(40)})
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(("path", "head"), [
    ("src/base/a.cpp", "namespace tt {\nint f(int x)"),
    ("src/base/a.cpp", "Foo::Foo(int x) : a_(1), b_{2}"),
    ("src/base/a.cpp", "template <class T>\nauto f(T x, Options o = {}) -> T"),
    ("src/base/a.cpp", "struct S {\n int g() { return 1; }\n private:\n  int f(int x) const"),
    ("src/base/a.cpp", 'const char* kBrace = "}{";  // {\nint f(int x)'),
    ("frontend/src/base/a.ts", "export async function f(x: number): Promise<void>"),
    ("frontend/src/base/a.ts", "export const f = (x: number): number =>"),
    ("frontend/src/base/a.ts", "class A {\n  private f(x = `${1}}`)"),
])
def test_a_long_function(check: Check, path: str, head: str) -> None:
    closing = "}\n" * head.count("{\n") + "};\n"
    result = check("check_sizes.py", {path: function(41, head) + closing})
    assert result.returncode == 1
    assert "function has 41 lines, the budget is 40" in result.stdout, result.stdout


def test_a_long_function_in_python_bash_and_svelte(check: Check) -> None:
    result = check("check_sizes.py", {
        "scripts/a.py": "class A:\n  def f(self):\n" + "    x = 1\n" * 40,
        "scripts/b.sh": "g() {\n" + "  true\n" * 39 + "}\n",
        "frontend/src/C.svelte":
            "<p>{</p>\n<script lang=\"ts\">\nfunction h() {\n" + "  a();\n" * 39 + "}\n</script>\n",
    })
    assert "A.f: function has 41 lines" in result.stdout
    assert "g: function has 41 lines" in result.stdout
    assert "h: function has 41 lines" in result.stdout


def test_a_class_is_not_a_function(check: Check) -> None:
    text = "class A {\n" + "  int f();\n" * 60 + "};\nconst T kTable = {\n" + "  {1, f(2)},\n" * 60
    assert check("check_sizes.py", {"src/base/a.h": text + "};\n"}).returncode == 0


def test_tests_have_their_own_budget(check: Check) -> None:
    result = check("check_sizes.py", {"tests/unit/a_test.cpp": function(100, "TEST(A, B)")})
    assert result.returncode == 0, result.stdout
    result = check("check_sizes.py", {"tests/unit/a_test.cpp": function(101, "TEST(A, B)")})
    assert "TEST(A, B): function has 101 lines; 100 is the limit" in result.stdout


def test_a_long_file(check: Check) -> None:
    assert check("check_sizes.py", {"src/base/a.h": "//\n" * 600}).returncode == 0
    result = check("check_sizes.py", {"src/base/a.h": "//\n" * 601})
    assert "file has 601 lines; 600 is the limit" in result.stdout


@pytest.mark.parametrize(("lines", "entry", "message"), [
    (50, "src/base/a.cpp::f 50", ""),
    (51, "src/base/a.cpp::f 50", "has grown to 51 lines"),
    (49, "src/base/a.cpp::f 50", "has shrunk to 49 lines"),
    (30, "src/base/a.cpp::f 50", "is within its budget: remove it"),
    (101, "src/base/a.cpp::f 101", "100 is the limit"),
])
def test_the_ratchet(check: Check, lines: int, entry: str, message: str) -> None:
    result = check("check_sizes.py", {"src/base/a.cpp": function(lines),
                                      RATCHET: f"# list\n{entry}\n"})
    assert result.returncode == (1 if message else 0)
    assert message in result.stdout


def test_function_names_and_lengths() -> None:
    from function_lengths import Function, measure

    text = ("namespace tt {\nvoid A::go(int x) {\n  auto f = [] { return 1; };\n}\n"
            "#define M(x) { x\nint b() { return 2; }\n}\n")
    assert measure(Path("a.cpp"), text) == [Function("A::go", 2, 3), Function("b", 6, 1)]
    script = "describe('x', () => {\n  it('works', () => {\n    a();\n  });\n});\n"
    assert [f.length for f in measure(Path("a.test.ts"), script)] == [3]
