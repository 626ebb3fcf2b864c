"""Writes session.ttrec.gz next to this script: a short training run that the tests of the page replay.

    python frontend/e2e/recorded/make_recording.py      # two ranks, some seconds; TT_BIN_DIR: where the program is

The model is small, and so are the records. In step SPIKE a program makes the output of layer 2 nine times as large.
In the last step another writes NaN and infinities there. expected.py reads the file for the tests.
"""

import gzip
import json
import math
import os
import shutil
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
TILES = {"kind": "tile", "tiles": 8}
VECTORS = ["evil", "sycophancy"]
ENTRIES: list[dict[str, Any]] = [
    {"point": "HiddenStates", "phases": ["train", "eval"], "compressor": TILES},
    {"point": "MLP1", "every": 5, "compressor": {"kind": "tile", "tiles": 4}},
    {"point": "HiddenStates", "compressor": {"kind": "stats"}},
    {"point": "HiddenStates", "prompts": "probes", "rows": 0, "compressor": {"kind": "projection", "vectors": VECTORS}},
    {"point": "HiddenStates", "every": 10, "compressor": {"kind": "projection", "vectors": ["evil"]}},
    {"point": "RawAttentionScore", "every": 10, "layers": "1,3", "tokens": [0, 16], "compressor": NONE},
    {"point": "Logits", "every": 5, "compressor": {"kind": "topk", "k": 5}},
    {"point": "HiddenStates", "every": 10, "direction": "gradient", "dtype": "u8", "compressor": TILES},
    {"point": "FinalNorm", "every": 10, "compressor": TILES},
    {"point": "MLP2", "every": 10, "layers": "2-3", "compressor": {"kind": "empty"}},
    {"point": "LogitLens", "every": 10, "compressor": {"kind": "topk", "k": 5}},
    {"point": "attention.entropy", "every": 10, "compressor": NONE},
    {"point": "mlp.contribution_ratio", "every": 10, "compressor": NONE},
    {"point": "Updates", "every": 20, "compressor": NONE},
    {"point": "InputTokens", "phases": ["train", "eval"]},
    {"point": "InputTokens", "prompts": "probes", "rows": 0},
]
PROMPTS = "Once upon a time\ndef f(\n"
SPIKE_PROGRAM = f'when(phase="train", steps="{SPIKE}")\nlayers[2].output *= 9.0\n'
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
    (folder / "plan.json").write_text(json.dumps({"entries": ENTRIES}))
    (folder / "spike.tti").write_text(SPIKE_PROGRAM)
    (folder / "break.tti").write_text(BREAK_PROGRAM)
    (folder / "text.txt").write_text("".join(f"Line {n} of a text, {n * n % 97} words long.\n" for n in range(2000)))


def train(folder: Path) -> None:
    mpirun = shutil.which("mpirun") or sys.exit("mpirun is missing")
    model = ["--num-layers", LAYERS, "--hidden-size", HIDDEN, "--num-attention-heads", 4, "--seq-length", 32,
             "--micro-batch-size", 4, "--tensor-model-parallel-size", 2]
    course = ["--train-iters", STEPS, "--eval-interval", 20, "--eval-iters", 1, "--lr", 0.003, "--threads", 1]
    traced = ["--tensor-tracer-plan", "plan.json", "--tensor-tracer-vectors", "vectors", "--monitor-prompts",
              "probes.txt", "--monitor-interval", 10, "--interventions", "spike.tti", "break.tti", "--record", "out"]
    command = [mpirun, "--quiet", "--oversubscribe", "-np", 2, PROGRAM, "train", "--run-name", "recorded",
               "--data-path", "text.txt", "--run-dir", "out", *model, *course, *traced]
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    subprocess.run([str(word) for word in command], cwd=folder, env=os.environ | allowed, check=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_inputs(folder)
        train(folder)
        recording = (folder / "out" / "run.ttrec").read_bytes()
    packed = gzip.compress(recording, mtime=0)
    (HERE / "session.ttrec.gz").write_bytes(packed)
    print(f"session.ttrec.gz: {len(packed)} bytes, {len(recording)} unpacked")


if __name__ == "__main__":
    main()
