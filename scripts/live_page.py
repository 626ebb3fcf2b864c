"""Starts a real run on two ranks with the demo's configuration and tests the page against it.

The arguments are passed to Playwright. scripts/test.sh runs it as the suite `live page`.
"""

import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 120.0  # seconds until the run has a page


PROGRAM = Path(os.environ.get("TT_BIN_DIR", ROOT / "build/release/bin")) / "tensor-tracer"


def write_vector(folder: Path) -> None:
    """A direction to follow: for every hidden state of the demo's model another row."""
    hidden_states, hidden_size = 5, 256
    rows = [math.sin(1 + n) for n in range(hidden_states * hidden_size)]
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({hidden_states}, {hidden_size}), }}"
    header = text.encode().ljust(117) + b"\n"
    magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    folder.mkdir(parents=True)
    (folder / "direction.npy").write_bytes(magic + header + struct.pack(f"<{len(rows)}f", *rows))


def start_run(folder: Path) -> subprocess.Popen[bytes]:
    """As scripts/demo.sh, on another text, recorded, and with a vector in its folder."""
    write_vector(folder.with_name("vectors"))
    mpirun = shutil.which("mpirun") or sys.exit("mpirun is missing")
    command = [mpirun, "--quiet", "--oversubscribe", "-np", "2", str(PROGRAM), "train",
               "--config", "configs/runs/demo.json", "--data-path", "docs", "src",
               "--run-dir", str(folder), "--train-iters", "100000", "--tensor-tracer-port", "0",
               "--tensor-tracer-vectors", str(folder.with_name("vectors")), "--monitor-prompts",
               "examples/prompts/code.txt", "examples/prompts/prose.txt", "--record", str(folder)]
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with folder.with_name("output.txt").open("w") as output:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT)


def wait_for_page(run: subprocess.Popen[bytes], folder: Path) -> str:
    """The page's address with its token, as soon as the hub has written both."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if run.poll() is not None:
            sys.exit(f"the run ended with {run.returncode} before it had a page")
        if (folder / "hub.json").is_file() and (folder / "token").is_file():
            url = json.loads((folder / "hub.json").read_text())["url"]
            return f"{url}#token={(folder / 'token').read_text().strip()}"
        time.sleep(0.1)
    sys.exit(f"the run had no page after {PATIENCE:.0f} s")


def stop_run(run: subprocess.Popen[bytes]) -> None:
    if run.poll() is None:
        run.send_signal(signal.SIGINT)
    try:
        run.wait(timeout=10)
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()


def show_output(folder: Path) -> None:
    """The run's lines; of its steps only the last ones, because the failed test is what a reader looks for."""
    lines = folder.with_name("output.txt").read_text().splitlines()
    steps = [line for line in lines if line.startswith("step ")]
    dropped = set(steps[:-3])
    print("The output of the run:", *(line for line in lines if line not in dropped), sep="\n", flush=True)


def stop_on_signal(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def main() -> int:
    signal.signal(signal.SIGTERM, stop_on_signal)
    with tempfile.TemporaryDirectory(prefix="tensor-tracer-") as temporary:
        folder = Path(temporary) / "run"
        run = start_run(folder)
        try:
            url = wait_for_page(run, folder)
            command = ["npm", "run", "e2e:live", "--", *sys.argv[1:]]
            told = {"TT_PAGE_URL": url, "TT_RECORDING": str(folder / "run.ttrec"), "TT_PROGRAM": str(PROGRAM),
                    "TT_PYTHON": sys.executable}
            return subprocess.run(command, cwd=ROOT / "frontend", env=os.environ | told).returncode
        finally:
            stop_run(run)
            show_output(folder)


if __name__ == "__main__":
    sys.exit(main())
