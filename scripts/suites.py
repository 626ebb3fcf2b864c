"""The suites of scripts/test.sh and scripts/nightly.sh: one table each, in the order of running.

A row states the command and the budget in minutes: a suite that takes longer is stopped and has failed.
Which tests of a folder run where is stated in the test files. In Python `pytest.mark.nightly(suite=…)`
names the nightly suite of a test or a file, and `pytest.mark.smoke` keeps a test of such a file in CI.
In the browser's tests the tag `@smoke` keeps a test in CI; all others are nightly. Tests of a live page
(`live_*.spec.ts`) run in CI; the tag `@nightly` makes one nightly.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Suite:
    """One command. `report` is its JUnit file, or a folder of them; a suite without one is a check:
    passed or failed."""

    name: str
    command: tuple[str, ...]
    minutes: float
    report: Path | None = None
    folder: Path = ROOT
    environment: tuple[tuple[str, str], ...] = ()
    is_fast: bool = False  # part of scripts/test.sh --fast


def check(name: str, *command: str, minutes: float = 2) -> Suite:
    return Suite(f"check {name}", command, minutes, is_fast=True)


def python_check(name: str, *options: str, minutes: float = 2) -> Suite:
    return check(name, sys.executable, f"scripts/check_{name}.py", *options, minutes=minutes)


def page_check(script: str) -> Suite:
    return Suite(f"page {script}", ("npm", "run", script), 5, folder=ROOT / "frontend",
                 is_fast=True)


def pytest_suite(name: str, minutes: float, reports: Path, *options: str,
                 is_fast: bool = False) -> Suite:
    """Options select the tests: folders, -m."""
    report = reports / f"{name}.xml"
    command = (sys.executable, "-m", "pytest", *options, "-q", "-rsRf", f"--junitxml={report}")
    return Suite(name, command, minutes, report, is_fast=is_fast)


def vitest_suite(reports: Path) -> Suite:
    report = reports / "vitest.xml"
    command = ("npm", "test", "--", "--reporter=default", "--reporter=junit",
               f"--outputFile.junit={report}")
    return Suite("vitest", command, 5, report, ROOT / "frontend", is_fast=True)


def playwright_suite(name: str, minutes: float, reports: Path, folder: Path,
                     *command: str) -> Suite:
    report = reports / f"{name.replace(' ', '-')}.xml"
    # Two names of one setting: the newer Playwright knows the first, the older the second.
    environment = (("PLAYWRIGHT_JUNIT_OUTPUT_FILE", str(report)),
                   ("PLAYWRIGHT_JUNIT_OUTPUT_NAME", str(report)))
    command = (*command, "--reporter=list,junit", "--retries=1")
    return Suite(name, command, minutes, report, folder, environment)


def cpp_suite(preset: str, minutes: float, reports: Path, *, name: str = "",
              is_fast: bool = False) -> Suite:
    report = reports / preset
    command = ("scripts/cpp_tests.sh", preset, "--reports", str(report))
    return Suite(name or preset, command, minutes, report, is_fast=is_fast)


# On a busy machine processes and browsers are now and then late: their suites try a failed test once
# more, and the summary names what passed only then.
RERUN = "--reruns=1"
IN_CI = "smoke or not nightly"
# Tests that start the whole program often wait. One process runs all tests of a file. Ranks of the oracle's
# tests compute and poll: more than two processes would not be faster on two CPUs.
SIDE_BY_SIDE = ("-n3", "--dist=loadfile")
TWO_AT_A_TIME = ("-n2", "--dist=loadfile")
# For suites of one or two large files: both processes run tests of each file.
TWO_TESTS_AT_A_TIME = ("-n2", "--dist=load")


def side_by_side() -> tuple[str, ...]:
    """Nothing where a process may not make a network namespace, which each of them needs."""
    if shutil.which("unshare") is None:
        return ()
    tried = subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL, check=False)
    return SIDE_BY_SIDE if tried.returncode == 0 else ()


def ci_suites(reports: Path) -> list[Suite]:
    """What scripts/test.sh and .ci/run run; the cheapest suites that find most come first."""
    return [
        python_check("layers"),
        python_check("sizes"),
        python_check("style"),
        python_check("classes"),
        check("format", "scripts/check_format.sh"),
        pytest_suite("scripts", 5, reports, "tests/scripts", is_fast=True),
        page_check("check"),
        page_check("lint"),
        page_check("size"),
        vitest_suite(reports),
        cpp_suite("release", 10, reports, name="ctest", is_fast=True),
        Suite("cuda", ("scripts/cuda_build.sh",), 20),
        pytest_suite("oracle", 20, reports, "tests/oracle", "-m", IN_CI, *TWO_AT_A_TIME),
        pytest_suite("e2e", 15, reports, "tests/e2e", "-m", IN_CI, RERUN, *side_by_side()),
        playwright_suite("playwright", 10, reports, ROOT / "frontend", "npm", "run", "e2e", "--",
                         "--grep=@smoke"),
        playwright_suite("live page", 10, reports, ROOT, sys.executable, "scripts/live_page.py",
                         "--grep-invert=@nightly"),
        cpp_suite("asan-ubsan", 45, reports),
    ]


def nightly_pytest(name: str, minutes: float, reports: Path, folder: str, *options: str) -> Suite:
    """The tests that are marked with the suite's name."""
    selection = f"nightly(suite={name!r}) and not smoke"
    return pytest_suite(name, minutes, reports, folder, "-m", selection, *options)


def nightly_suites(reports: Path) -> list[Suite]:
    """What scripts/nightly.sh runs; together at most 100 minutes."""
    e2e = "tests/e2e"
    return [
        nightly_pytest("websocket", 1, reports, e2e, RERUN),
        nightly_pytest("attacks", 2.5, reports, e2e, RERUN),
        nightly_pytest("kills", 1.5, reports, e2e, RERUN),
        nightly_pytest("history", 1.5, reports, e2e, RERUN),
        nightly_pytest("dialects", 1, reports, e2e, RERUN, *side_by_side()),
        nightly_pytest("export", 1.5, reports, e2e, RERUN, *side_by_side()),
        # Not side by side: a Slurm node does not start in a network namespace.
        nightly_pytest("runs", 2.5, reports, e2e, RERUN),
        nightly_pytest("wheel", 3, reports, e2e, RERUN),
        nightly_pytest("meshes", 9, reports, "tests/oracle", *TWO_AT_A_TIME),
        nightly_pytest("checkpoints", 4, reports, "tests/oracle", *TWO_TESTS_AT_A_TIME),
        nightly_pytest("crashes", 5, reports, "tests/oracle", *TWO_TESTS_AT_A_TIME),
        nightly_pytest("attach", 17, reports, "tests/oracle", *TWO_AT_A_TIME),
        nightly_pytest("models", 6, reports, "tests/oracle", *TWO_TESTS_AT_A_TIME),
        playwright_suite("browser", 20, reports, ROOT / "frontend", "npm", "run", "e2e", "--",
                         "--grep-invert=@smoke"),
        playwright_suite("live views", 8.5, reports, ROOT, sys.executable, "scripts/live_page.py",
                         "--grep=@nightly"),
        cpp_suite("no-mpi", 3, reports),
        cpp_suite("tsan", 4.5, reports),
        cpp_suite("asan-ubsan-slow", 7, reports),
        python_check("names", "--all", "--minutes=1", minutes=1.5),
    ]
