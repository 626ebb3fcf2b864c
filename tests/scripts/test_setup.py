"""The set-up and the demo in a copied tree, with stand-ins for the programs that would take long."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# What the scripts themselves need; nothing that the set-up looks for.
TOOLS = ("awk", "bash", "basename", "cat", "cut", "dirname", "env", "find", "flock", "grep", "head",
         "id", "mkdir", "nproc", "printf", "rm", "sed", "sha256sum", "sleep", "sort", "tail",
         "touch", "tr", "true", "wc")


class Tree:
    """A checkout with the scripts only, and a separate PATH."""

    def __init__(self, root: Path) -> None:
        self.root, self.bin = root / "checkout", root / "bin"
        self.calls = root / "calls"
        shutil.copytree(REPOSITORY / "scripts", self.root / "scripts")
        (self.root / "CMakePresets.json").write_text("{}")
        self.bin.mkdir()
        for tool in TOOLS:
            path = shutil.which(tool)
            assert path, tool
            (self.bin / tool).symlink_to(path)

    def stand_in(self, path: Path, body: str = "") -> None:
        """A program that notes how it was called."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/bash\necho "${{0##*/}} $*" >>"{self.calls}"\n{body}\n')
        path.chmod(0o755)

    def libtorch(self, name: str) -> Path:
        root = self.root.parent / name
        (root / "include/ATen").mkdir(parents=True)
        (root / "lib").mkdir()
        (root / "lib/libtorch_cpu.so").touch()
        return root

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        self.calls.unlink(missing_ok=True)
        return subprocess.run(
            command, cwd=self.root, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "/")} | environment)

    def called(self) -> str:
        return self.calls.read_text() if self.calls.exists() else ""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_without_apt_it_says_what_is_missing(tree: Tree) -> None:
    result = tree.run("scripts/setup.sh", "--for", "test", "--only", "packages")
    assert result.returncode == 1
    for line in ("program g++", "program mpirun", "header boost/beast.hpp", "header gtest/gtest.h",
                 "program chromium"):
        assert f"  {line}\n" in result.stderr
    demo = tree.run("scripts/setup.sh", "--for", "demo", "--only", "packages")
    assert "header CLI/CLI.hpp" in demo.stderr and "gtest" not in demo.stderr


def test_apt_is_asked_only_for_what_is_missing(tree: Tree) -> None:
    tree.stand_in(tree.bin / "apt-get")
    tree.stand_in(tree.bin / "sudo", '[ "$1" = -v ] || "$@"')
    tree.stand_in(tree.bin / "dpkg-query",
                  'shift 3; for p in "$@"; do [ $p = cmake ] || echo "$p ii "; done; exit 1')
    result = tree.run("scripts/setup.sh", "--for", "demo", "--only", "packages")
    assert result.returncode == 0, result.stderr
    assert "installed cmake" in result.stdout
    installs = [line for line in tree.called().splitlines() if line.startswith("apt-get")]
    assert len(installs) == 2
    assert installs[0].endswith(" update") and installs[1].endswith(" --no-install-recommends cmake")

    tree.stand_in(tree.bin / "dpkg-query", 'shift 3; for p in "$@"; do echo "$p ii "; done')
    result = tree.run("scripts/setup.sh", "--for", "demo", "--only", "packages")
    assert "packages: nothing missing" in result.stdout
    assert "apt-get" not in tree.called()


def test_a_failed_command_shows_the_log(tree: Tree) -> None:
    tree.stand_in(tree.bin / "cmake", "echo the compiler said no; exit 1")
    result = tree.run("scripts/setup.sh", "--for", "demo", "--only", "build")
    assert result.returncode == 1
    assert "[1/1] build: FAILED" in result.stderr and "the compiler said no" in result.stderr


def configure(tree: Tree, purpose: str, torch: Path) -> str:
    """Configures; returns how cmake was called."""
    result = tree.run("scripts/setup.sh", "--for", purpose, "--only", "configure",
                      TT_LIBTORCH=str(torch))
    assert result.returncode == 0, result.stderr
    return tree.called()


def test_configuring_is_stable(tree: Tree) -> None:
    torch, other = tree.libtorch("torch"), tree.libtorch("other")
    cache = tree.root / "build/release"
    # Remembers what it was given, as CMake's cache does.
    tree.stand_in(tree.bin / "cmake", f"""
        mkdir -p {cache}; touch {cache}/build.ninja
        echo "CMAKE_HOME_DIRECTORY:INTERNAL={tree.root}" >{cache}/CMakeCache.txt
        for a in "$@"; do case $a in -D*=*)
          n=${{a%%=*}}; echo "${{n#-D}}:STRING=${{a#*=}}" >>{cache}/CMakeCache.txt;; esac; done""")
    first = configure(tree, "demo", torch)
    assert f"-DTT_LIBTORCH={torch} -DTT_BUILD_TESTS=OFF" in first and "--fresh" not in first
    assert configure(tree, "demo", torch) == ""
    assert "-DTT_BUILD_TESTS=ON" in configure(tree, "test", torch)
    assert configure(tree, "demo", torch) == "", "the demo turned the tests off again"
    changed = configure(tree, "demo", other)
    assert "--fresh" in changed and "-DTT_BUILD_TESTS=ON" in changed
    assert configure(tree, "test", other) == ""


def test_a_wrong_libtorch_is_named(tree: Tree) -> None:
    result = tree.run("scripts/setup.sh", "--for", "demo", "--only", "configure",
                      TT_LIBTORCH="/nowhere")
    assert result.returncode == 1 and "no libtorch at /nowhere" in result.stderr


@pytest.mark.parametrize("purpose", ["demo", "test"])
def test_the_interpreter_can_export(tree: Tree, purpose: str) -> None:
    tree.stand_in(tree.root / ".venv/bin/python")
    command = ("scripts/setup.sh", "--for", purpose, "--only", "venv")
    result = tree.run(*command, TT_LIBTORCH=str(tree.libtorch("torch")))
    assert result.returncode == 0, result.stderr
    assert "installed export" in result.stdout
    assert f"-r {tree.root}/scripts/requirements-export.txt\n" in tree.called()
    names = (tree.root / "scripts/requirements-export.txt").read_text()
    assert "\nnumpy==" in names and "\ntensorboardX==" in names


@pytest.mark.parametrize("flags", [(), ("--for",), ("--for", "x"), ("--fro", "demo"),
                                   ("--for", "demo", "--only", "venv,bild")])
def test_wrong_flags(tree: Tree, flags: tuple[str, ...]) -> None:
    result = tree.run("scripts/setup.sh", *flags)
    assert result.returncode == 2 and "setup.sh: " in result.stderr


@pytest.mark.parametrize(("name", "flags"), [("demo.sh", "--help"), ("test.sh", "--help"),
                                             ("nightly.sh", "--help"), ("setup.sh", "--help")])
def test_help(tree: Tree, name: str, flags: str) -> None:
    result = tree.run(f"scripts/{name}", flags)
    assert result.returncode == 0 and f"scripts/{name} " in result.stdout


@pytest.mark.parametrize(("name", "flag"), [("test.sh", "--fsat"), ("test.sh", "--sanitizers"),
                                            ("nightly.sh", "--fast")])
def test_a_wrong_flag_is_refused_before_any_work(tree: Tree, name: str, flag: str) -> None:
    tree.stand_in(tree.root / "scripts/setup.sh")
    result = tree.run(f"scripts/{name}", "--only", "ctest", flag)
    assert result.returncode == 2 and f"{name}: unknown flag {flag}" in result.stderr
    assert tree.called() == ""


def prepare_demo(tree: Tree) -> None:
    tree.stand_in(tree.root / "scripts/setup.sh")
    tree.stand_in(tree.root / ".venv/bin/python", "echo /python/lib")
    tree.stand_in(tree.bin / "mpirun")


def demo_command(tree: Tree, *flags: str) -> list[str]:
    prepare_demo(tree)
    result = tree.run("scripts/demo.sh", *flags)
    assert result.returncode == 0, result.stderr
    return tree.called().splitlines()[-1].split()


def test_the_demo_starts_two_ranks_on_real_text(tree: Tree) -> None:
    command = " ".join(demo_command(tree, "--open"))
    assert command.startswith("mpirun --quiet -np 2 ")
    assert "/build/release/bin/tensor-tracer train --config configs/runs/demo.json " in command
    for part in ("--tensor-tracer-port 8765", "--data-path /python/lib docs --data-exclude",
                 "--progress-bar off", "--tensor-tracer-open", "--tensor-tracer-vectors build/vectors",
                 "--monitor-prompts examples/prompts/code.txt examples/prompts/prose.txt"):
        assert part in command
    # Not on a terminal: no log may hold the token.
    assert "--print-url" not in command


def test_the_callers_flags_replace_the_demos(tree: Tree) -> None:
    command = demo_command(tree, "--tensor-tracer-port=9000", "--data-path", "mine", "--lr", "1e-4")
    assert command.count("--data-path") == 1 and "/python/lib" not in command
    assert "8765" not in command and "--tensor-tracer-port=9000" in command
    assert command[-4:] == ["--data-path", "mine", "--lr", "1e-4"]


def test_on_a_terminal_the_demo_prints_the_address(tree: Tree) -> None:
    prepare_demo(tree)
    ours, its = pty.openpty()
    try:
        subprocess.run(["scripts/demo.sh"], cwd=tree.root, stdin=subprocess.DEVNULL, stdout=its,
                       env={"PATH": str(tree.bin)}, check=True)
    finally:
        os.close(ours)
        os.close(its)
    command = tree.called().splitlines()[-1]
    assert "--print-url" in command and "--progress-bar on" in command
