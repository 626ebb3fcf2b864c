"""Runs the suites of scripts/suites.py and prints one summary; scripts/test.sh and
scripts/nightly.sh call it.

Each suite runs quietly into <reports>/<name>.log and leaves a JUnit file, from which the counts are
read. A suite that fails without saying so, or runs no test at all, counts as one failure. A check that
cannot run on this machine says so, and counts neither as passed nor as failed. Nightly
results are kept per commit: a suite that has passed for the commit is not run again, unless --only
names it. The results of a tree with changes that are not committed are never used again.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from suites import ROOT, Suite, ci_suites, nightly_suites

LOG_TAIL = 80  # lines shown of a failed suite
# The exit code of a check that cannot run on this machine; its last line says why.
NOT_RUN = 77


@dataclass
class Outcome:
    suite: Suite
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""
    flaky: tuple[str, ...] = ()  # tests that passed only when they were tried again


def named_suites(suites: list[Suite], names: str) -> list[Suite]:
    wanted = names.split(",")
    unknown = set(wanted) - {suite.name for suite in suites}
    if unknown:
        known = ", ".join(suite.name for suite in suites)
        sys.exit(f"unknown suite {', '.join(sorted(unknown))}; there are: {known}")
    return [suite for suite in suites if suite.name in wanted]


def count_report(report: Path, outcome: Outcome) -> None:
    """Adds up the test cases of the JUnit files of any of the four tools."""
    files = sorted(report.glob("*.xml")) if report.is_dir() else [report]
    for case in (case for file in files for case in ElementTree.parse(file).iter("testcase")):
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            outcome.skipped += 1
        else:
            outcome.passed += 1


def judge(outcome: Outcome, returncode: int | None) -> None:
    """Fills in the counts, and turns a suite that wrongly looks like a success into a failure."""
    report = outcome.suite.report
    if report is None and returncode == NOT_RUN:
        outcome.skipped, outcome.note = 1, "not run"
        return
    if report is None:
        outcome.passed, outcome.failed = (1, 0) if returncode == 0 else (0, 1)
    elif report.exists():
        try:
            count_report(report, outcome)
        except ElementTree.ParseError as error:
            outcome.note = f"unreadable report: {error}"
    if returncode is None:
        outcome.note = f"over its budget of {outcome.suite.minutes} minutes"
    elif outcome.passed + outcome.failed == 0:
        end = f"; exit code {returncode}" if returncode else ""
        outcome.note = outcome.note or f"ran no test{end}"
    elif returncode != 0 and outcome.failed == 0:
        outcome.note = f"exit code {returncode}"
    if outcome.note:
        outcome.failed = max(outcome.failed, 1)


def count_retries(log: str, outcome: Outcome) -> None:
    """Reads what Playwright names below "1 flaky", and pytest on separate lines, at the end.

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


class Runner:
    """Runs suites one after the other. `reports` is where logs, JUnit files and results are kept."""

    def __init__(self, reports: Path, reuses_results: bool) -> None:
        self.reports = reports
        self.reuses_results = reuses_results

    def run(self, suites: list[Suite]) -> bool:
        """True if all is well."""
        self.reports.mkdir(parents=True, exist_ok=True)
        outcomes = []
        for number, suite in enumerate(suites, 1):
            print(f"({number}/{len(suites)}) {suite.name} … ", end="", flush=True)
            outcome = self.earlier_outcome(suite) if self.reuses_results else None
            if outcome is None:
                outcome = self.run_suite(suite)
            else:
                print(f"passed before ({outcome.seconds:.1f} s)", flush=True)
            outcomes.append(outcome)
        return print_summary(outcomes)

    def file(self, suite: Suite, suffix: str) -> Path:
        return self.reports / (suite.name.replace(" ", "-") + suffix)

    def run_suite(self, suite: Suite) -> Outcome:
        outcome = Outcome(suite)
        log, result = self.file(suite, ".log"), self.file(suite, ".json")
        result.unlink(missing_ok=True)
        remove_report(suite.report)
        started = time.monotonic()
        try:
            returncode = run_command(suite, log)
        except OSError as error:
            log.write_text(f"{error}\n")
            returncode = 127
        outcome.seconds = time.monotonic() - started
        judge(outcome, returncode)
        if outcome.skipped and outcome.suite.report is None:
            outcome.note = log.read_text(errors="replace").strip().rpartition("\n")[2]
        count_retries(log.read_text(errors="replace"), outcome)
        self.keep(outcome, result)
        self.print_end(outcome, log)
        return outcome

    def keep(self, outcome: Outcome, result: Path) -> None:
        """Writes the result whole or not at all."""
        kept = {name: value for name, value in vars(outcome).items() if name != "suite"}
        unfinished = result.with_suffix(".tmp")
        unfinished.write_text(json.dumps(kept) + "\n")
        unfinished.replace(result)

    def earlier_outcome(self, suite: Suite) -> Outcome | None:
        """The kept result of a suite that passed."""
        result = self.file(suite, ".json")
        if not result.is_file():
            return None
        kept = json.loads(result.read_text())
        outcome = Outcome(suite, **kept | {"flaky": tuple(kept["flaky"])})
        outcome.note = "passed before"
        return outcome if outcome.passed > 0 and outcome.failed == 0 else None

    def print_end(self, outcome: Outcome, log: Path) -> None:
        if outcome.failed == 0:
            said = "ok" if outcome.passed else outcome.note
            print(f"{said} ({outcome.seconds:.1f} s)", flush=True)
            return
        name = log.relative_to(ROOT) if log.is_relative_to(ROOT) else log
        print(f"FAILED; the end of {name}:", flush=True)
        lines = log.read_text(errors="replace").splitlines()
        print("\n".join(f"  | {line}" for line in lines[-LOG_TAIL:]), flush=True)


def remove_report(report: Path | None) -> None:
    """An old report must not count."""
    if report is None:
        return
    for file in [*report.glob("*.xml"), report]:
        if file.is_file():
            file.unlink()


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


def git(root: Path, *arguments: str) -> str:
    command = ("git", "-C", str(root), *arguments)
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"nightly results are kept per commit, and git failed: {result.stderr.strip()}")
    return result.stdout.strip()


def nightly_folder(root: Path) -> tuple[Path, bool]:
    """The folder of the commit's results, and whether the tree is the commit."""
    commit = git(root, "rev-parse", "HEAD")
    is_clean = git(root, "status", "--porcelain") == ""
    return root / "build" / "nightly" / (commit if is_clean else f"{commit}-dirty"), is_clean


def run_nightly(root: Path, only: str | None) -> bool:
    reports, is_clean = nightly_folder(root)
    if not is_clean:
        print("dirty tree: results are not used again")
    print(f"results: {reports.relative_to(root)}", flush=True)
    suites = nightly_suites(reports)
    if only:
        return Runner(reports, False).run(named_suites(suites, only))
    return Runner(reports, is_clean).run(suites)


def run_ci(root: Path, only: str | None, fast: bool) -> bool:
    reports = root / "build" / "test"
    suites = ci_suites(reports)
    if only:
        suites = named_suites(suites, only)
    elif fast:
        suites = [suite for suite in suites if suite.is_fast]
    return Runner(reports, False).run(suites)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fast", action="store_true", help="leave out runs of the whole program")
    parser.add_argument("--nightly", action="store_true", help="the suites of scripts/nightly.sh")
    parser.add_argument("--only", metavar="SUITE,…", help="these suites only")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, note_interruption)
    signal.signal(signal.SIGINT, note_interruption)
    if options.nightly:
        is_well = run_nightly(ROOT, options.only)
    else:
        is_well = run_ci(ROOT, options.only, options.fast)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
