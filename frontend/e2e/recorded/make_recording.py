"""Writes session.ttrec.gz and baseline.ttrec.gz next to this script: short runs that the tests of the page replay.

    python frontend/e2e/recorded/make_recording.py      # two ranks, some seconds; TT_BIN_DIR: where the program is
    python frontend/e2e/recorded/make_recording.py --inputs FOLDER

The model is small, and so are the records. In step SPIKE of the session a program makes the output of layer 2 nine
times as large. In the last step another writes NaN and infinities there. The baseline is a second run to compare with:
the same text, another learning rate. expected.py reads the files for the tests. With --inputs it writes only the files
that such a run reads; real_run.ts starts runs with them.
"""

import contextlib
import gzip
import json
import math
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAM = Path(os.environ.get("TT_BIN_DIR", ROOT / "build/release/bin")) / "tensor-tracer"
LAYERS, HIDDEN, SPIKE, STEPS = 4, 64, 36, 40

NONE = {"kind": "none"}
STATS = {"kind": "stats"}
TOPK = {"kind": "topk", "k": 5}
VECTORS = ["evil", "sycophancy"]


def tiles(count: int, **more: str) -> dict[str, Any]:
    return {"kind": "tile", "tiles": count, **more}


def projection(*vectors: str) -> dict[str, Any]:
    return {"kind": "projection", "vectors": vectors}


# recorded.ts names these entries by their places.
ENTRIES: list[dict[str, Any]] = [
    {"point": "HiddenStates", "phases": ["train", "eval"], "compressor": tiles(8)},
    {"point": "MLP1", "every": 5, "compressor": tiles(4)},
    {"point": "HiddenStates", "compressor": STATS},
    {"point": "HiddenStates", "prompts": "probes", "rows": 0, "compressor": projection(*VECTORS)},
    {"point": "HiddenStates", "every": 15, "compressor": projection("evil")},
    {"point": "RawAttentionScore", "every": 15, "layers": "1,3", "tokens": [0, 16], "compressor": NONE},
    {"point": "Logits", "every": 5, "compressor": TOPK},
    {"point": "HiddenStates", "every": 15, "direction": "gradient", "dtype": "u8", "compressor": tiles(8)},
    {"point": "FinalNorm", "every": 15, "compressor": tiles(8)},
    {"point": "MLP2", "every": 15, "layers": "2-3", "compressor": {"kind": "empty"}},
    {"point": "LogitLens", "every": 15, "compressor": TOPK},
    {"point": "attention.entropy", "every": 15, "compressor": NONE},
    {"point": "mlp.contribution", "every": 15, "compressor": NONE},
    {"point": "Updates", "every": 15, "compressor": NONE},
    {"point": "HiddenStates", "every": 15, "compressor": {"kind": "top_tokens", "columns": [3, 17], "k": 5}},
    {"point": "HiddenStates", "every": 30, "compressor": TOPK},
    {"point": "MLPActivation", "every": 30, "tokens": [0, 2], "compressor": NONE},
    {"point": "Embedding", "every": 15, "compressor": STATS},
    {"point": "FinalNorm", "every": 15, "compressor": STATS},
    {"point": "InputTokens", "phases": ["train", "eval"]},
    {"point": "InputTokens", "prompts": "probes", "rows": 0},
]
# The first entry can be compared with the session's; of the next two the tiles and the method are others.
BASELINE: list[dict[str, Any]] = [
    {"point": "HiddenStates", "every": 15, "compressor": tiles(8)},
    {"point": "MLP1", "every": 15, "compressor": tiles(2)},
    {"point": "FinalNorm", "every": 15, "compressor": tiles(8, method="sum")},
    {"point": "InputTokens", "every": 15},
    {"point": "HiddenStates", "every": 5, "compressor": projection("evil")},
]
# Of a run that a test of the page controls.
LIVE: list[dict[str, Any]] = [
    {"point": "HiddenStates", "layers": "1-4", "phases": ["train", "eval"], "compressor": tiles(8)},
    {"point": "MLP1", "layers": "1-4", "compressor": tiles(4)},
    {"point": "InputTokens"},
]
PROMPTS = "Once upon a time\ndef f(\n"
SPIKE_PROGRAM = f"""when(phase="train", steps="{SPIKE}")
factor = param(9.0, min=0.0, max=20.0)
layers[2].output *= factor
"""
BREAK_PROGRAM = f"""when(phase="train", steps="{STEPS}")
layers[2].output[:, 10, 0:8] = nan
layers[2].output[:, 12, 0:8] = inf
layers[2].output[:, 14, 0:8] = -inf
"""


def vector(phase: int) -> bytes:
    """A row for each hidden state, as NPY."""
    rows = [math.sin(phase + n) for n in range((LAYERS + 1) * HIDDEN)]
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({LAYERS + 1}, {HIDDEN}), }}"
    header = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(rows)}f", *rows)


def write_inputs(folder: Path) -> None:
    (folder / "vectors").mkdir()
    for phase, name in enumerate(VECTORS):
        (folder / "vectors" / f"{name}.npy").write_bytes(vector(1 + phase))
    (folder / "probes.txt").write_text(PROMPTS)
    for name, entries in {"session": ENTRIES, "baseline": BASELINE, "live": LIVE}.items():
        (folder / f"{name}.json").write_text(json.dumps({"entries": entries}))
    (folder / "spike.tti").write_text(SPIKE_PROGRAM)
    (folder / "break.tti").write_text(BREAK_PROGRAM)
    (folder / "text.txt").write_text("".join(f"Line {n} of a text, {n * n % 97} words long.\n" for n in range(2000)))


def train(folder: Path, name: str, *options: object) -> None:
    mpirun = shutil.which("mpirun") or sys.exit("mpirun is missing")
    model = ["--num-layers", LAYERS, "--hidden-size", HIDDEN, "--num-attention-heads", 4, "--seq-length", 32,
             "--micro-batch-size", 4, "--tensor-model-parallel-size", 2, "--threads", 1]
    command = [mpirun, "--quiet", "--oversubscribe", "-np", 2, PROGRAM, "train", "--data-path", "text.txt",
               "--run-dir", name, "--record", name, "--tensor-tracer-plan", f"{name}.json", *model, *options]
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    subprocess.run([str(word) for word in command], cwd=folder, env=os.environ | allowed, check=True)


def pack(folder: Path, name: str) -> None:
    """Without the names of this machine and of its folders."""
    file = folder / name / "run.ttrec"
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE runs SET facts = json_set(facts, '$.host', 'host', '$.recording', 'run.ttrec')")
        database.commit()
        database.execute("VACUUM")
    recording = file.read_bytes()
    packed = gzip.compress(recording, mtime=0)
    (HERE / f"{name}.ttrec.gz").write_bytes(packed)
    print(f"{name}.ttrec.gz: {len(packed)} bytes, {len(recording)} unpacked")


def main() -> None:
    if sys.argv[1:2] == ["--inputs"]:
        write_inputs(Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_inputs(folder)
        prompts = ["--tensor-tracer-vectors", "vectors", "--monitor-prompts", "probes.txt", "--monitor-interval", 10]
        train(folder, "session", "--run-name", "recorded", "--train-iters", STEPS, "--eval-interval", 20,
              "--eval-iters", 1, "--lr", 0.003, *prompts, "--interventions", "spike.tti", "break.tti")
        train(folder, "baseline", "--run-name", "baseline", "--train-iters", 15, "--lr", 0.006,
              "--tensor-tracer-vectors", "vectors")
        for name in ("session", "baseline"):
            pack(folder, name)


if __name__ == "__main__":
    main()
