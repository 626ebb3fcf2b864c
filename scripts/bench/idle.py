"""Instructions that an idle trace point costs, counted by callgrind (Debian's package valgrind)."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from candidates import tensor_tracer

PASSES = 100_000


def instructions(passes: int, mode: str) -> int:
    """Of the whole probe."""
    with tempfile.TemporaryDirectory(prefix="tt-bench-") as folder:
        line = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        line += [str(tensor_tracer().with_name("idle_probe")), str(passes), mode]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


def main() -> None:
    argparse.ArgumentParser(prog="scripts/bench.sh idle", description=__doc__).parse_args()
    if not Path("/usr/bin/valgrind").exists():
        sys.exit("valgrind is missing: apt-get install valgrind")
    per_pass = {
        mode: (instructions(2 * PASSES, mode) - instructions(PASSES, mode)) / PASSES
        for mode in ("loop", "capture")
    }
    point = per_pass["capture"] - per_pass["loop"]
    print(f"an idle trace point: {point:.2f} instructions (the loop around it: {per_pass['loop']:.2f})")


if __name__ == "__main__":
    main()
