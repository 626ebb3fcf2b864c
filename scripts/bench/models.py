"""Models of Hugging Face: how fast they are loaded, saved and fine-tuned, each beside another program.

    scripts/bench.sh models loading    a folder of 1 GiB, beside dd
    scripts/bench.sh models saving     checkpoints, beside copies in memory
    scripts/bench.sh models tuning     SmolLM2-135M with adapters, beside transformers and peft

A row prints one table as Markdown. Ratios are of pairs of one run, with a 95 % bootstrap interval of their median.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import sys

import model_loading
import model_saving
import model_tuning
from train import MAX_LOAD, machine

ROWS = {"loading": model_loading, "saving": model_saving, "tuning": model_tuning}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench.sh models", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    rows = parser.add_subparsers(dest="row", required=True)
    for name, module in ROWS.items():
        summary = (module.__doc__ or "").strip()
        module.add_options(rows.add_parser(name, help=summary, description=summary))
    return parser.parse_args()


def main() -> None:
    chosen = options()
    load = os.getloadavg()[0]
    busy = f" **The machine was busy (load {load:.1f}): do not trust the times.**" if load > MAX_LOAD else ""
    measured = ROWS[chosen.row].main(chosen)
    command = shlex.join(["scripts/bench.sh", "models", *sys.argv[1:]])
    heading = f"### Models, {chosen.row}, {datetime.date.today().isoformat()}\n\n    {command}\n\n{machine()}.{busy}"
    print(f"{heading}\n\n{measured}")


if __name__ == "__main__":
    main()
