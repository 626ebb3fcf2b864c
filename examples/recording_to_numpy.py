"""Writes what was recorded of one point of one layer as .npz.

    python examples/recording_to_numpy.py runs/5f0c1d2e3a4b5c6d/run.ttrec HiddenStates 4 hidden.npz

Records that differ in more than their step, rows or micro-batch are of different arrays. A name says of
which, such as `plan1.entry0.HiddenStates.layer4.train.value`; beside it are the array's `.steps`,
`.micro_batches` and `.first_rows`. Numbers are bit for bit as streamed, but bf16 and u8 become float32:
bf16 exactly, u8 within half of its line's scale.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict

import numpy as np
from tensor_tracer import Record, TensorTracerError, open_recording


BESIDE = {"steps": "step", "micro_batches": "micro_batch", "first_rows": "first_row"}


def name_of(record: Record) -> str:
    """Without the parts that are as usual."""
    parts = [f"plan{record.plan}", f"entry{record.entry}", record.point, f"layer{record.layer}"]
    parts += [record.phase, record.direction]
    parts += [f"prompts{record.prompt_set}"] if record.prompt_set else []
    parts += [f"data{record.data_rank}"] if record.data_rank else []
    return ".".join(parts)


def by_array(records: list[Record]) -> dict[str, list[Record]]:
    """A name has its records' dtype and shape where there are several."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        form = f"{record.dtype}.{'x'.join(map(str, record.shape))}"
        groups[name_of(record), form].append(record)
    forms = Counter(name for name, _ in groups)
    return {
        f"{name}.{form}" if forms[name] > 1 else name: group for (name, form), group in groups.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recording")
    parser.add_argument("point")
    parser.add_argument("layer", type=int)
    parser.add_argument("output")
    parser.add_argument("--entry", type=int, help="of the trace plan; default: all")
    options = parser.parse_args()
    with open_recording(options.recording) as recording:
        records = list(recording.records(options.point, layers=options.layer, entry=options.entry))
    if not records:
        sys.exit(f"error: {options.point} of layer {options.layer}: nothing was recorded")
    arrays = {}
    for name, group in by_array(records).items():
        values = arrays[name] = np.stack([record.values for record in group])
        for beside, field in BESIDE.items():
            arrays[f"{name}.{beside}"] = np.array([getattr(record, field) for record in group])
        print(f"{name}: {values.shape} of {values.dtype}, steps {group[0].step} to {group[-1].step}")
    np.savez(options.output, **arrays)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (TensorTracerError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
