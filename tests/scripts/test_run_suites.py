"""The runner never takes silence, a crash or an empty suite for success."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import run_suites
import suites
from run_suites import Outcome, Runner, judge
from suites import Suite

RUNNER_FOLDER = Path(run_suites.__file__).parent


def suite_of(*command: str, folder: Path = Path("/"), report: Path | None = None,
             minutes: int = 30) -> Suite:
    return Suite("s", command, minutes, report, folder)


@pytest.fixture
def run_suite(tmp_path: Path):
    """Runs one suite; its log and result go to the test's folder."""
    return Runner(tmp_path, False).run_suite


CASES = ('<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>'
         '<testcase name="c"><skipped/></testcase><testcase name="d" status="notrun"/>'
         '<testcase name="e" status="run"/></testsuite></testsuites>')


@pytest.mark.parametrize(("content", "returncode", "passed", "failed", "note"), [
    (CASES, 1, 2, 1, ""),
    ('<testsuite><testcase name="a"/></testsuite>', 0, 1, 0, ""),
    ('<testsuite><testcase name="a"/></testsuite>', 139, 1, 1, "exit code 139"),
    ('<testsuite><testcase name="a"/></testsuite>', None, 1, 1, "over its budget of 30 minutes"),
    ("<testsuite/>", 0, 0, 1, "ran no test"),
    ('<testsuite><testcase name="a"><skipped/></testcase></testsuite>', 0, 0, 1, "ran no test"),
    ("<testsuite", 0, 0, 1, "unreadable report"),
    (None, 0, 0, 1, "ran no test"),
    (None, -9, 0, 1, "ran no test; exit code -9"),
])
def test_judge(tmp_path: Path, content: str | None, returncode: int | None, passed: int,
               failed: int, note: str) -> None:
    report = tmp_path / "r.xml"
    if content is not None:
        report.write_text(content)
    outcome = Outcome(suite_of(report=report))
    judge(outcome, returncode)
    assert (outcome.passed, outcome.failed) == (passed, failed)
    assert outcome.note.startswith(note) and bool(outcome.note) == bool(note)


@pytest.mark.parametrize(("code", "passed"), [(0, 1), (1, 0)])
def test_a_check_counts_once(run_suite, code: int, passed: int) -> None:
    outcome = run_suite(suite_of(sys.executable, "-c", f"raise SystemExit({code})"))
    assert (outcome.passed, outcome.failed) == (passed, 1 - passed)


def test_a_check_that_cannot_run_here_counts_neither_way(
        run_suite, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run_suite(suite_of("sh", "-c", "echo begin; echo not run: no compiler; exit 77"))
    assert (outcome.passed, outcome.failed, outcome.skipped) == (0, 0, 1)
    assert outcome.note == "not run: no compiler"
    assert "not run: no compiler" in capsys.readouterr().out
    assert not run_suites.print_summary([outcome]), "nothing has passed"


@pytest.mark.parametrize("place", ["r.xml", "folder/r.xml"])
def test_an_old_report_does_not_count(run_suite, tmp_path: Path, place: str) -> None:
    report = tmp_path / place
    report.parent.mkdir(exist_ok=True)
    report.write_text(CASES)
    outcome = run_suite(suite_of("true", report=tmp_path / place.partition("/")[0]))
    assert (outcome.passed, outcome.failed, outcome.note) == (0, 1, "ran no test")


def test_the_reports_of_a_folder_are_added_up(run_suite, tmp_path: Path) -> None:
    (tmp_path / "cases").write_text(CASES)
    script = "mkdir -p all && cp cases all/a.xml && cp cases all/b.xml"
    outcome = run_suite(suite_of("bash", "-c", script, folder=tmp_path, report=tmp_path / "all"))
    assert (outcome.passed, outcome.failed, outcome.skipped) == (4, 2, 4)


def test_a_suite_over_its_budget_has_failed(run_suite, tmp_path: Path) -> None:
    script = "echo $$ > pid; exec sleep 600"
    outcome = run_suite(suite_of("bash", "-c", script, folder=tmp_path, minutes=0))
    assert (outcome.passed, outcome.failed) == (0, 1)
    assert outcome.note == "over its budget of 0 minutes"


def test_a_missing_program_is_a_failure(run_suite) -> None:
    outcome = run_suite(suite_of("no-such-program-here"))
    assert outcome.failed == 1


def test_a_suite_leaves_no_process_behind(run_suite, tmp_path: Path) -> None:
    script = "sleep 600 & echo $! > child; exit 0"
    assert run_suite(suite_of("bash", "-c", script, folder=tmp_path)).passed == 1
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not runs(child)


def runs(pid: int) -> bool:
    """Whether a process is there; one that has ended and waits for its parent to ask is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_summary_ends_with_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    suite = suite_of()
    assert not run_suites.print_summary([Outcome(suite, passed=3), Outcome(suite, failed=1)])
    assert capsys.readouterr().out.endswith("\n3 passed, 1 failed\n")
    assert not run_suites.print_summary([])
    assert run_suites.print_summary([Outcome(suite, passed=1)])


FLAKY = """  ✓    1 e2e/a.spec.ts:1:1 › one (1.0s)

  1 flaky
    e2e/link.spec.ts:125:3 › the link of overview ──────────────────
  182 passed (6.2m)
"""


def test_what_passed_only_on_the_second_try_is_named(
    run_suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list").write_text(FLAKY)
    outcome = run_suite(suite_of("cat", "list", folder=tmp_path))
    assert outcome.flaky == ("e2e/link.spec.ts:125:3 › the link of overview",)
    assert run_suites.print_summary([outcome])
    assert "passed only on the second try: e2e/link.spec.ts:125:3" in capsys.readouterr().out
    (tmp_path / "list").write_text("  182 passed (6.2m)\n")
    assert run_suite(suite_of("cat", "list", folder=tmp_path)).flaky == ()


TWICE = """
def test_well(): pass
def test_late(tmp_path):
    import pathlib
    mark = pathlib.Path("mark")
    late = not mark.exists()
    mark.touch()
    assert not late
def test_wrong(): assert False
"""


def test_a_test_of_pytest_that_ran_twice_counts_once(run_suite, tmp_path: Path) -> None:
    (tmp_path / "test_twice.py").write_text(TWICE)
    suite = suites.pytest_suite("s", 5, tmp_path, "test_twice.py", "--reruns=1")
    outcome = run_suite(replace(suite, folder=tmp_path))
    assert (outcome.passed, outcome.failed) == (2, 1)
    assert outcome.flaky == ("test_twice.py::test_late",)


@pytest.mark.parametrize("flags", [(), ("--nightly",)])
def test_an_unknown_suite_is_refused(flags: tuple[str, ...]) -> None:
    command = [sys.executable, str(RUNNER_FOLDER / "run_suites.py"), *flags, "--only", "tsan,vitets"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode != 0
    known = "check layers, " if not flags else "websocket, "
    assert "vitets" in result.stderr and f"; there are: {known}" in result.stderr


def test_interruption_ends_the_suite(tmp_path: Path) -> None:
    """Ctrl-C on the runner takes the running suite along."""
    program = (
        f"import sys; sys.path.insert(0, {str(RUNNER_FOLDER)!r})\n"
        "from pathlib import Path\n"
        "import run_suites as r\n"
        f"here = Path({str(tmp_path)!r})\n"
        "r.signal.signal(r.signal.SIGINT, r.note_interruption)\n"
        "r.Runner(here, False).run_suite(r.Suite('s', ('bash', '-c', 'echo $$ > pid; exec sleep 600'),"
        " 5, folder=here))\n")
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    pid = wait_for_pid(tmp_path / "pid")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130
    assert not runs(pid)


def wait_for_pid(file: Path) -> int:
    deadline = time.monotonic() + 10
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(file.read_text())
