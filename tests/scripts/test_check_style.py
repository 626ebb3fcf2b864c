"""Each rule of check_style.py fires where it should and only there."""

import pytest

from conftest import Check

# The words are put together here so that this file has none of them bare.
BARE = "TO" + "DO"

BAD = {
    "todo": ("src/base/a.cpp", f"// {BARE}: later\n"),
    "exit": ("src/hub/a.cpp", "void f() { std::exit(1); }\n"),
    "dynamic": ("src/hub/a.cpp", "void f() { std::system(text); }\n"),
    "new": ("src/hub/a.cpp", "auto* p = new Thing(1);\n"),
    "delete": ("src/hub/a.cpp", "void f() { delete p; }\n"),
    "mesh_dim": ("src/mesh/a.cpp", "int tp_dim = 0;\n"),
    "instance": ("src/mesh/a.cpp", "auto& x = Registry::instance();\n"),
    "device": ("src/nn/a.cpp", "auto x = at::zeros({f(1), g(h(2))},\n  at::kFloat);\n"),
    "using": ("include/tensor_tracer/base/h.h", "#pragma once\nusing namespace std;\n"),
    "root": ("src/hub/a.cpp", '#include "room.h"\n'),
    "once": ("include/tensor_tracer/base/h.h", "#include <vector>\n"),
    "glob": ("src/base/CMakeLists.txt", "file(GLOB sources *.cpp)\n"),
    "any": ("frontend/src/base/a.ts", "export function f(x: any): void {}\n"),
    "font": ("frontend/src/a.svelte", "<style>\n  p {\n    font: 600 11.5px/1.4 var(--mono);\n  }\n</style>\n"),
    "default": ("frontend/src/base/a.ts", "export default 1;\n"),
}

GOOD = {
    "src/base/a.cpp": f"// {BARE}(#12): with an issue\n// new thing; exit( delete x\n"
                      'const char* k = "new Thing";\n',
    "src/base/b.cpp": "B(const B&) = delete;\nvoid B::exit_loop() { loop.exit(); MPI_Abort(); }\n"
                      "int renew(int news);\n",
    "src/base/c.cpp": "void* operator new(std::size_t);\n"
                      "auto* p = new Slot;  // owned by the ring. style: new\n",
    "src/protocol/a.cpp": "// system(x)\nstd::system_error e(1);\nvoid f() { x.system(1); }\n",
    "src/trace/a.cpp": "void* p = dlopen(name, 0);\n",
    "src/base/d.cpp": "auto p = std::unique_ptr<D>(new D(1));\n"
                      "std::unique_ptr<D> q(\n    new D(2));\n",
    "frontend/src/a.css": "code { font: var(--text-small) / 17px var(--mono); height: 12px; }\n"
                          "p { font-size: var(--text); --text: 13px; font-weight: 600; }\n",
    "tests/unit/e_test.cpp": "listeners.Append(new Printer);\n",
    "src/cli/main.cpp": "int main() { std::exit(2); }\n",
    "include/tensor_tracer/base/world.h": "// About.\n#pragma once\nvoid abort(int code);\n",
    "frontend/src/base/a.ts": "// any\nexport const any = 'as any';\nconst x: unknown = 1;\n",
    "src/base/f.cpp": '#include "src/base/g.h"\n#include "tensor_tracer/base/h.h"\n'
                      '// #include "x.h"\n#include <vector>\n',
    "tests/unit/f_test.cpp": '#include "tests/unit/helper.h"\n',
    "src/nn/b.cpp": "auto x = at::zeros({f(g(1))}, y.options().dtype(at::kLong));\n"
                    "auto y = at::full({1}, 0, at::device(at::kCPU).dtype(at::kInt));\n",
    "tests/unit/g_test.cpp": "auto x = at::zeros({1}, at::kFloat);\n",
    "CMakeLists.txt": "# file(GLOB is not used\n",
}


def test_good_code_passes(check: Check) -> None:
    result = check("check_style.py", GOOD)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("rule", BAD)
def test_fires(check: Check, rule: str) -> None:
    path, content = BAD[rule]
    result = check("check_style.py", GOOD | {path: content})
    assert result.returncode == 1
    assert f"{path}:" in result.stdout and f"[{rule}]" in result.stdout, result.stdout
    assert "1 findings" in result.stdout, result.stdout


@pytest.mark.parametrize("code", [
    "auto f = popen(x, y);", "auto f = ::popen (x, y);", "void* p = dlopen(x, 0);",
    "auto m = torch::jit::load(file);", "int r = execvp(x, y);", "return system(x);"])
@pytest.mark.parametrize("file", [
    "src/hub/a.cpp", "src/protocol/a.cpp", "src/record/a.cpp", "src/expr/a.cpp",
    "include/tensor_tracer/record/a.h"])
def test_no_dynamic_code_where_viewers_messages_go(check: Check, file: str, code: str) -> None:
    once = "#pragma once\n" if file.endswith(".h") else ""
    result = check("check_style.py", {file: f"{once}void f() {{ {code} }}\n"})
    assert result.returncode == 1 and "[dynamic]" in result.stdout, result.stdout


@pytest.mark.parametrize("code", [
    "a { font-size: 11px }", "a {font:12.5px var(--mono);}", 'style:font-size="13px"',
    "a { font-size: 0.9em; }", "a { font: bold 10pt serif; }"])
def test_no_text_size_beside_the_scale(check: Check, code: str) -> None:
    result = check("check_style.py", {"frontend/src/b.svelte": code + "\n"})
    assert result.returncode == 1 and "[font]" in result.stdout, result.stdout


@pytest.mark.parametrize(("files", "first", "passes"), [
    ({"include/tensor_tracer/hub/a.h": "#pragma once\n"}, '"tensor_tracer/hub/a.h"', True),
    ({"include/tensor_tracer/hub/a.h": "#pragma once\n"}, "<vector>", False),
    ({"src/hub/a.h": "#pragma once\n"}, '"src/hub/a.h"', True),
    ({"src/hub/a.h": "#pragma once\n"}, '"src/hub/b.h"', False),
    ({}, "<vector>", True),
])
def test_own_header_first(check: Check, files: dict[str, str], first: str, passes: bool) -> None:
    result = check("check_style.py", files | {"src/hub/a.cpp": f"// About.\n#include {first}\n"})
    assert result.returncode == (0 if passes else 1), result.stdout
    assert passes or "[own]" in result.stdout


def test_check_format(check: Check) -> None:
    style = {".clang-format": "BasedOnStyle: Google\n"}
    assert check("check_format.sh", style).returncode == 1  # nothing to check
    assert check("check_format.sh", style | {"a.cpp": "int x = 1;\n"}).returncode == 0
    bad = check("check_format.sh", style | {"a.cpp": "int  x=1;\n"})
    assert bad.returncode == 1 and "a.cpp:1: not as clang-format has it\n" in bad.stdout
