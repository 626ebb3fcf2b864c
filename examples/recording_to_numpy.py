"""Writes one point of one layer of a recording as .npz: steps and values, bit for bit as streamed.

    python examples/recording_to_numpy.py runs/5f0c1d2e3a4b5c6d/run.ttrec HiddenStates 4 hidden.npz
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from tensor_tracer import TensorTracerError, open_recording


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recording")
    parser.add_argument("point")
    parser.add_argument("layer", type=int)
    parser.add_argument("output")
    parser.add_argument("--entry", type=int, help="of the trace plan; default: the first that has this")
    options = parser.parse_args()
    with open_recording(options.recording) as recording:
        records = list(recording.records(options.point, layers=options.layer, entry=options.entry))
    if not records:
        sys.exit(f"error: {options.point} of layer {options.layer}: nothing was recorded")
    entries = sorted({record.entry for record in records})
    if len(entries) > 1:  # of other prompts or compressors, which fit in no common array
        print(f"entry {entries[0]} is taken of {', '.join(map(str, entries))}; --entry takes another")
    records = [record for record in records if record.entry == entries[0]]
    values = np.stack([record.values for record in records])
    np.savez(options.output, steps=[record.step for record in records], values=values)
    print(f"{options.output}: {values.shape} of {values.dtype}, steps {records[0].step} to {records[-1].step}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (TensorTracerError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
