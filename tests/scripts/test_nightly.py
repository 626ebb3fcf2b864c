"""Nightly results are kept per commit: what passed is not repeated, and every marked test has a suite."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import run_suites
import suites

REPOSITORY = Path(__file__).resolve().parents[2]

# What one process of the runner does: the suites are three scripts of Bash.
PROGRAM = """
import sys; sys.path.insert(0, {scripts!r})
from pathlib import Path
import run_suites as r
root = Path({root!r})
r.nightly_suites = lambda reports: [r.Suite(name, ("bash", str(root.parent / name)), 5, folder=root)
                                    for name in ("first", "second", "third")]
r.ROOT = root
sys.argv = ["nightly", "--nightly", *sys.argv[1:]]
sys.exit(r.main())
"""


class Nightly:
    """A checkout with one commit, and suites that write down when they run."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.root.mkdir()
        self.git("init", "-q")
        (self.root / ".gitignore").write_text("/build/\n")
        self.commit("one")
        for name in ("first", "second", "third"):
            self.write(name, "true")

    def git(self, *arguments: str) -> str:
        command = ("git", "-C", str(self.root), "-c", "user.name=n", "-c", "user.email=e@x", *arguments)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, content: str) -> None:
        (self.root / "file").write_text(content)
        self.git("add", ".")
        self.git("commit", "-qm", content)

    def write(self, name: str, script: str) -> None:
        (self.root.parent / name).write_text(f"echo {name} >> {self.root.parent / 'ran'}\n{script}\n")

    def start(self, *flags: str) -> subprocess.Popen[str]:
        scripts = str(REPOSITORY / "scripts")
        program = PROGRAM.format(scripts=scripts, root=str(self.root))
        return subprocess.Popen([sys.executable, "-c", program, *flags], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def run(self, *flags: str) -> tuple[int, str]:
        process = self.start(*flags)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def ran(self) -> list[str]:
        """The suites that have run since the last call."""
        log = self.root.parent / "ran"
        names = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return names


@pytest.fixture
def nightly(tmp_path: Path) -> Nightly:
    return Nightly(tmp_path)


def test_what_passed_is_not_repeated_and_what_failed_is(nightly: Nightly) -> None:
    nightly.write("second", "false")
    code, output = nightly.run()
    assert code == 1 and output.endswith("\n2 passed, 1 failed\n")
    assert nightly.ran() == ["first", "second", "third"]
    nightly.write("second", "true")
    code, output = nightly.run()
    assert code == 0 and output.endswith("\n3 passed, 0 failed\n")
    assert nightly.ran() == ["second"]
    assert output.count("passed before (") == 2
    folder = nightly.root / "build/nightly" / nightly.git("rev-parse", "HEAD")
    assert {file.name for file in folder.glob("*.json")} == {"first.json", "second.json", "third.json"}


def test_an_interrupted_run_goes_on_where_it_stopped(nightly: Nightly) -> None:
    nightly.write("second", "exec sleep 600")
    process = nightly.start()
    log = nightly.root.parent / "ran"
    deadline = time.monotonic() + 30
    while not (log.exists() and "second" in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert nightly.ran() == ["first", "second"]
    nightly.write("second", "true")
    assert nightly.run()[0] == 0
    assert nightly.ran() == ["second", "third"]


def test_another_commit_has_its_own_results(nightly: Nightly) -> None:
    nightly.run()
    nightly.ran()
    nightly.commit("two")
    nightly.run()
    assert nightly.ran() == ["first", "second", "third"]


def test_a_dirty_tree_is_named_and_its_results_are_not_used_again(nightly: Nightly) -> None:
    nightly.run()
    nightly.ran()
    (nightly.root / "file").write_text("changed")
    for _ in range(2):
        code, output = nightly.run()
        assert code == 0 and "dirty tree" in output
        assert f"build/nightly/{nightly.git('rev-parse', 'HEAD')}-dirty" in output
        assert nightly.ran() == ["first", "second", "third"]
    (nightly.root / "file").write_text("one")
    nightly.run()
    assert nightly.ran() == []


def test_a_suite_that_is_named_runs_alone_and_again(nightly: Nightly) -> None:
    for _ in range(2):
        code, output = nightly.run("--only", "second")
        assert code == 0 and output.endswith("\n1 passed, 0 failed\n")
        assert nightly.ran() == ["second"]
    nightly.run()
    assert nightly.ran() == ["first", "third"]


def test_no_checkout_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="git failed"):
        run_suites.nightly_folder(tmp_path)


def test_the_budgets_fit_into_the_night() -> None:
    assert sum(suite.minutes for suite in suites.nightly_suites(Path("r"))) <= 100


def test_a_name_is_one_suite() -> None:
    for table in (suites.ci_suites, suites.nightly_suites):
        names = [suite.name for suite in table(Path("r"))]
        assert len(set(names)) == len(names)


def read_marks(file: Path) -> tuple[set[str], bool]:
    """The nightly suites that a test file names, and whether CI runs a part of the file."""
    text = file.read_text()
    names = set(re.findall(r"mark\.nightly\(suite=[\"'](\w+)[\"']\)", text))
    is_whole_file = re.search(r"^pytestmark = .*mark\.nightly", text, re.MULTILINE) is not None
    return names, "mark.smoke" in text or not is_whole_file


def test_every_mark_has_a_suite_with_tests_in_ci() -> None:
    files = [file for folder in ("e2e", "oracle")
             for file in (REPOSITORY / "tests" / folder).glob("test_*.py")]
    marks = [read_marks(file) for file in files]
    in_table = {match[1] for suite in suites.nightly_suites(Path("r")) for option in suite.command
                if (match := re.match(r"nightly\(suite='(\w+)'\)", option))}
    assert set().union(*(names for names, _ in marks)) == in_table
    assert set().union(*(names for names, in_ci in marks if in_ci)) == in_table


def test_the_browser_has_tests_in_ci() -> None:
    specs = sorted((REPOSITORY / "frontend/e2e").glob("*.spec.ts"))
    assert sum(", kSmoke, " in spec.read_text() for spec in specs) >= 10


def test_a_suite_of_the_table_selects_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_marks.py").write_text(
        "import pytest\n"
        "pytestmark = pytest.mark.nightly(suite='kills')\n"
        "def test_long(): pass\n"
        "@pytest.mark.smoke\ndef test_short(): pass\n")
    for selection, expected in ((suites.IN_CI, "test_short"),
                                (suites.nightly_pytest("kills", 1, tmp_path, ".").command[5], "test_long"),
                                (suites.nightly_pytest("export", 1, tmp_path, ".").command[5], "")):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", selection]
        output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
        assert re.findall(r"::(\w+)", output) == ([expected] if expected else []), output
