"""Runs every check and test suite of the project and prints one summary; scripts/test.sh calls it.

Each suite runs quietly into build/test/<name>.log and leaves a JUnit file, from which the counts are
read. A suite that fails without saying so, or runs no test at all, counts as one failure.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "test"
LOG_TAIL = 80  # lines shown of a failed suite


@dataclass(frozen=True)
class Suite:
    """One command. `report` is its JUnit file; a suite without one is a check: passed or failed."""

    name: str
    command: tuple[str, ...]
    report: Path | None = None
    folder: Path = ROOT
    environment: tuple[tuple[str, str], ...] = ()
    group: str = "fast"  # fast: always; whole: not with --fast; sanitizers: only when asked for
    minutes: int = 30  # after which it is stopped and has failed


@dataclass
class Outcome:
    suite: Suite
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""
    flaky: tuple[str, ...] = ()  # tests that passed only when they were tried again


def python_check(name: str, group: str = "fast") -> Suite:
    return Suite(f"check {name}", (sys.executable, f"scripts/check_{name}.py"), group=group)


def pytest_suite(name: str, folder: str, group: str, *options: str) -> Suite:
    report = REPORTS / f"{folder.replace('/', '-')}.xml"
    command = (sys.executable, "-m", "pytest", folder, "-q", "-rsRf", f"--junitxml={report}")
    return Suite(name, command + options, report, group=group)


def page_check(script: str) -> Suite:
    return Suite(f"page {script}", ("npm", "run", script), folder=ROOT / "frontend")


def vitest_suite() -> Suite:
    report = REPORTS / "vitest.xml"
    command = ("npm", "test", "--", "--reporter=default", "--reporter=junit",
               f"--outputFile.junit={report}")
    return Suite("vitest", command, report, ROOT / "frontend")


def playwright_suite(name: str, command: tuple[str, ...], folder: Path) -> Suite:
    report = REPORTS / f"{name.replace(' ', '-')}.xml"
    # Two names of one setting: the newer Playwright knows the first, the older the second.
    environment = (("PLAYWRIGHT_JUNIT_OUTPUT_FILE", str(report)),
                   ("PLAYWRIGHT_JUNIT_OUTPUT_NAME", str(report)))
    command = (*command, "--reporter=list,junit", "--retries=1")
    return Suite(name, command, report, folder, environment, "whole")


def ctest_suite() -> Suite:
    report = REPORTS / "ctest.xml"
    command = ("ctest", "--preset", "release", "--no-tests=error", "--output-junit", str(report),
               "--timeout", "300", "-j", str(len(os.sched_getaffinity(0))))
    return Suite("ctest", command, report)


def sanitizer_suite(preset: str) -> Suite:
    report = REPORTS / f"{preset}.xml"
    command = ("scripts/sanitize.sh", preset, f"--gtest_output=xml:{report}")
    return Suite(preset, command, report, group="sanitizers", minutes=40)


def all_suites() -> list[Suite]:
    """In the order of running: what is cheap and tells most comes first."""
    return [
        python_check("layers"),
        python_check("sizes"),
        python_check("style"),
        Suite("check format", ("scripts/check_format.sh",)),
        python_check("names", "whole"),
        pytest_suite("scripts", "tests/scripts", "fast"),
        page_check("check"),
        page_check("lint"),
        page_check("size"),
        vitest_suite(),
        ctest_suite(),
        pytest_suite("oracle", "tests/oracle", "whole"),
        # On a busy machine processes and browsers are now and then late. Those suites try a failed
        # test once more, and the summary tells of it.
        pytest_suite("e2e", "tests/e2e", "whole", "--reruns=1"),
        playwright_suite("playwright", ("npm", "run", "e2e", "--"), ROOT / "frontend"),
        playwright_suite("live page", (sys.executable, "scripts/live_page.py"), ROOT),
        sanitizer_suite("asan-ubsan"),
        sanitizer_suite("tsan"),
    ]


def chosen_suites(options: argparse.Namespace) -> list[Suite]:
    suites = all_suites()
    if options.only:
        names = options.only.split(",")
        unknown = set(names) - {suite.name for suite in suites}
        if unknown:
            known = ", ".join(suite.name for suite in suites)
            sys.exit(f"unknown suite {', '.join(sorted(unknown))}; there are: {known}")
        return [suite for suite in suites if suite.name in names]
    groups = {"fast"}
    if not options.fast:
        groups.add("whole")
    if options.sanitizers:
        groups.add("sanitizers")
    return [suite for suite in suites if suite.group in groups]


def count_report(report: Path, outcome: Outcome) -> None:
    """Adds up the test cases of a JUnit file of any of the four tools."""
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            outcome.skipped += 1
        else:
            outcome.passed += 1


def judge(outcome: Outcome, returncode: int | None) -> None:
    """Fills in the counts, and makes a failure of what looks like success but is none."""
    report = outcome.suite.report
    if report is None:
        outcome.passed, outcome.failed = (1, 0) if returncode == 0 else (0, 1)
    elif report.exists():
        try:
            count_report(report, outcome)
        except ElementTree.ParseError as error:
            outcome.note = f"unreadable report: {error}"
    if returncode is None:
        outcome.note = f"stopped after {outcome.suite.minutes} minutes"
    elif outcome.passed + outcome.failed == 0:
        outcome.note = outcome.note or "ran no test"
    elif returncode != 0 and outcome.failed == 0:
        outcome.note = f"exit code {returncode}"
    if outcome.note:
        outcome.failed = max(outcome.failed, 1)


def count_retries(log: str, outcome: Outcome) -> None:
    """Reads what Playwright names below "1 flaky", and pytest on lines of their own, at the end.

    pytest's report has a test that ran twice as two, the first as if it had passed.
    """
    found = re.search(r"^ +\d+ flaky\n((?: {4,}\S.*\n)+)", log, re.MULTILINE)
    browsers = [line.strip(" ─") for line in found[1].splitlines()] if found else []
    rerun = re.findall(r"^RERUN (.+?)(?: - .*)?$", log, re.MULTILINE)
    failed = set(re.findall(r"^FAILED (.+?)(?: - .*)?$", log, re.MULTILINE))
    outcome.passed -= len(rerun)
    outcome.flaky = (*browsers, *(test for test in rerun if test not in failed))


def run_command(suite: Suite, log: Path) -> int | None:
    """The exit code, or None if the time was up. Takes the suite's whole process group down with it."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            suite.command, cwd=suite.folder, env=os.environ | dict(suite.environment),
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True)
        deadline = time.monotonic() + suite.minutes * 60
        while process.poll() is None and time.monotonic() < deadline and not interruptions:
            time.sleep(0.02)
        returncode = process.returncode
        stop_group(process)
    if interruptions:
        raise SystemExit(128 + interruptions[0])
    return returncode


# Signals that asked this program to end. A handler that raises could do so just before the suite it
# should stop is known.
interruptions: list[int] = []


def note_interruption(number: int, _frame: object) -> None:
    interruptions.append(number)


def stop_group(process: subprocess.Popen) -> None:
    """Ends what is left of the suite; usually nothing is. mpirun needs a moment to end its ranks."""
    for kind, grace in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 1.0)):
        deadline = time.monotonic() + grace
        try:
            os.killpg(process.pid, kind)
            while time.monotonic() < deadline:
                process.poll()
                os.killpg(process.pid, 0)  # is anyone left?
                time.sleep(0.02)
        except ProcessLookupError:
            break
    process.wait()


def run_suite(suite: Suite) -> Outcome:
    outcome = Outcome(suite)
    log = REPORTS / f"{suite.name.replace(' ', '-')}.log"
    if suite.report is not None:
        suite.report.unlink(missing_ok=True)
    started = time.monotonic()
    try:
        returncode = run_command(suite, log)
    except OSError as error:
        log.write_text(f"{error}\n")
        returncode = 127
    outcome.seconds = time.monotonic() - started
    judge(outcome, returncode)
    count_retries(log.read_text(errors="replace"), outcome)
    if outcome.failed:
        lines = log.read_text(errors="replace").splitlines()
        print(f"FAILED; the end of {log.relative_to(ROOT)}:", flush=True)
        print("\n".join(f"  | {line}" for line in lines[-LOG_TAIL:]), flush=True)
    else:
        print(f"ok ({outcome.seconds:.1f} s)", flush=True)
    return outcome


def print_summary(outcomes: list[Outcome]) -> bool:
    """The table and the last line. True if all is well."""
    print(f"\n{'suite':<16}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for outcome in outcomes:
        print(f"{outcome.suite.name:<16}{outcome.passed:>8}{outcome.failed:>8}{outcome.skipped:>9}"
              f"{outcome.seconds:>9.1f}  {outcome.note}".rstrip())
    for test in (test for outcome in outcomes for test in outcome.flaky):
        print(f"passed only on the second try: {test}")
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"\n{passed} passed, {failed} failed", flush=True)
    return failed == 0 and passed > 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/test.sh")
    parser.add_argument("--fast", action="store_true", help="leave out runs of the whole program")
    parser.add_argument("--sanitizers", action="store_true", help="also ASan+UBSan and TSan")
    parser.add_argument("--only", metavar="SUITE,…", help="these suites only")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, note_interruption)
    signal.signal(signal.SIGINT, note_interruption)
    REPORTS.mkdir(parents=True, exist_ok=True)
    suites = chosen_suites(options)
    outcomes = []
    for number, suite in enumerate(suites, 1):
        print(f"({number}/{len(suites)}) {suite.name} … ", end="", flush=True)
        outcomes.append(run_suite(suite))
    return 0 if print_summary(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
