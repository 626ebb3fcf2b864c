"""check_names.py fires on a wrong name of each kind; the right ones pass."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

GOOD = """#pragma once
#define TT_TWICE(x) ((x) + (x))
namespace tt::nn {
enum class Axis { kTensor, kData };
inline constexpr int kAllAxes = 2;
struct Options {
  int width = 1;
};
class Layer {
 public:
  int forward(int x_TBD) const {
    const int row_N1 = x_TBD + cos_TD_;
    return row_N1 + size_;
  }

 private:
  static constexpr int kLimit = 3;
  int size_ = kLimit;
  int cos_TD_ = 0;
};
TT_DECLARED
}  // namespace tt::nn
"""

WRONG = {  # right -> wrong
    "TT_TWICE": "TWICE",
    "tt::nn": "tt::NN",
    "Axis": "axis",
    "kTensor": "Tensor",
    "kAllAxes": "all_axes",
    "Options": "layer_options",
    "width": "Width",
    "Layer": "layer",
    "forward": "runForward",
    "x_TBD": "xTBD",
    "size_": "size",
    "row_N1": "row_N1_m",
    "cos_TD_": "cos_TD_m",
}


def check(root: Path, header: str, *options: str, grouped: bool = False) -> subprocess.CompletedProcess[str]:
    (root / "src").mkdir(exist_ok=True)
    (root / "src/a.h").write_text(header)
    source = root / "src/a.cpp"
    source.write_text('#include "a.h"\n')
    (root / ".clang-tidy").write_text((REPOSITORY / ".clang-tidy").read_text())
    compiled = source
    if grouped:  # as tt_group_sources does it
        compiled = root / "build/groups/tt_a_0.cpp"
        compiled.parent.mkdir(parents=True)
        compiled.write_text('#include "src/a.cpp"\n')
    (root / "compile_commands.json").write_text(json.dumps(
        [{"directory": str(root), "file": str(compiled), "command": f'g++ "-DTT_DECLARED=int one(); int two();" -std=c++20 -c {compiled}'}]))
    command = [sys.executable, str(REPOSITORY / "scripts/check_names.py"), "--root", str(root),
               "--build", ".", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_right_names_pass(tmp_path: Path) -> None:
    result = check(tmp_path, GOOD)
    assert result.returncode == 0, result.stdout


def test_each_wrong_name_is_found(tmp_path: Path) -> None:
    for right, wrong in WRONG.items():
        result = check(tmp_path, GOOD.replace(right, wrong))
        name = wrong.split("::")[-1]
        assert result.returncode == 1 and f"'{name}'" in result.stdout, (wrong, result.stdout)


def test_sources_in_groups_are_looked_at_one_by_one(tmp_path: Path) -> None:
    result = check(tmp_path, GOOD.replace("kTensor", "Tensor"), grouped=True)
    assert result.returncode == 1 and "'Tensor'" in result.stdout, result.stdout


def test_no_source_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "compile_commands.json").write_text("[]")
    command = [sys.executable, str(REPOSITORY / "scripts/check_names.py"), "--root", str(tmp_path),
               "--build", "."]
    assert subprocess.run(command, capture_output=True).returncode == 1


def test_a_clean_source_is_checked_again_only_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(tmp_path, GOOD).returncode == 0
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "clang-tidy").write_text("#!/bin/sh\nexit 1\n")
    (programs / "clang-tidy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert check(tmp_path, GOOD).returncode == 0, "clang-tidy did not run"
    result = check(tmp_path, GOOD.replace("width", "breadth"))
    assert result.returncode == 1 and "clang-tidy failed" in result.stdout


def test_a_check_whose_time_is_over_has_not_run(tmp_path: Path) -> None:
    """It is neither passed nor failed, until another call has seen every source."""
    result = check(tmp_path, GOOD, "--minutes=0")
    assert result.returncode == 77 and "1 sources are not checked yet" in result.stdout, result.stdout
    assert check(tmp_path, GOOD).returncode == 0
    assert check(tmp_path, GOOD, "--minutes=0").returncode == 0, "it was checked before"
