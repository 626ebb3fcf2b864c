"""The checks of a CUDA device; scripts/gpu_check.sh calls it and describes it.

The training of these checks is `gpu_training.py`, which torchrun starts too.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

NOT_RUN = 77
ROOT = Path(__file__).resolve().parents[2]
HEADING = "## On a CUDA device"

try:
    import torch
except ImportError as missing_torch:
    print(f"not run: {missing_torch}")
    sys.exit(NOT_RUN)

COMPRESSORS = [
    {"kind": "none"}, {"kind": "tile", "tiles": 1}, {"kind": "tile", "tiles": 7, "method": "sum"},
    {"kind": "tile", "tiles": 96}, {"kind": "tile", "tiles": 96, "method": "absmax"}, {"kind": "stats"},
    {"kind": "stats", "range": [-3, 3], "bins": 100}, {"kind": "projection", "vectors": ["given"]},
    {"kind": "topk", "k": 10}, {"kind": "topk", "k": 256}, {"kind": "outliers", "k": 10},
    {"kind": "top_tokens", "columns": [5, 0, 77]},
]  # fmt: skip
SHAPES = [(2, 3, 300), (1, 130, 320), (2, 200, 4096), (1, 4, 50257)]


def numbers_of(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    numbers[0, 0, :64] = -torch.inf
    numbers[-1, -1, -1] = torch.nan
    numbers[0, -1, 64:128] = 0
    return numbers.to(dtype)


def packed(numbers: torch.Tensor, compressor: dict[str, object], vector: torch.Tensor) -> torch.Tensor:
    return torch.ops.tensor_tracer.pack(numbers, json.dumps(compressor), vector)


def check_kernels(device: str) -> str:
    """Every kernel writes the bytes that the CPU writes."""
    count = 0
    for shape in SHAPES:
        vector = torch.randn(shape[-1], generator=torch.Generator().manual_seed(6))
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            numbers = numbers_of(shape, dtype)
            for compressor in COMPRESSORS:
                on_device = packed(numbers.to(device), compressor, vector).cpu()
                expected = packed(numbers, compressor, vector)
                wrong = int((on_device != expected).sum())
                assert wrong == 0, f"{compressor}, {shape}, {dtype}: {wrong} of {len(expected)} bytes differ"
                count += 1
    return f"{count} kernels and shapes"


def train(folder: Path, ranks: int = 1, **options: object) -> dict[str, object]:
    """What rank 0 of gpu_training.py measured."""
    folder.mkdir(parents=True)
    launcher = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    script = str(Path(__file__).with_name("gpu_training.py"))
    line = [sys.executable, *launcher, script, str(folder), json.dumps(options)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads((folder / "result.json").read_text()))


def check_training(device: str, folder: Path, ranks: int) -> str:
    """The records have the bits that PyTorch's hooks saw; the losses are those without the tracer; nothing in a
    watched step waits for the device."""
    watched = train(folder / "watched", ranks, device=device, watches="everything", compares=True, steps=6)
    alone = train(folder / "alone", ranks, device=device, watches="nothing", steps=6)
    assert watched["losses"] == alone["losses"], (watched["losses"], alone["losses"])
    assert watched["compared"] > 100, watched
    return f"{watched['compared']} records"


def measure(device: str, folder: Path, is_rehearsal: bool) -> list[str]:
    """Rows: the step time with statistics of every output and gradient of a linear layer, over that without."""
    size = {"steps": 8, "width": 128} if is_rehearsal else {"steps": 60, "width": 1024, "batch": 8, "tokens": 512}
    times = {kind: [] for kind in ("nothing", "stats", "tiles", "hooks")}
    for turn in range(1 if is_rehearsal else 3):
        for kind, kept in times.items():
            kept.append(float(train(folder / f"{kind}{turn}", device=device, watches=kind, **size)["milliseconds"]))
    middle = {kind: sorted(kept)[len(kept) // 2] for kind, kept in times.items()}
    said = {"stats": "stats of every linear's output and gradient", "tiles": "96 tiles of the same tensors",
            "hooks": "mean, deviation, least, most and norm by PyTorch's hooks"}
    where = device if is_rehearsal else torch.cuda.get_device_name()
    return [
        f"| {time.strftime('%Y-%m-%d')} | {where} | torch {torch.__version__} | {text} | {middle['nothing']:.2f} "
        f"| {middle[kind]:.2f} | {middle[kind] / middle['nothing']:.3f} |"
        for kind, text in said.items()
    ]


def write_rows(rows: list[str]) -> None:
    page = ROOT / "docs/benchmarks.md"
    head, heading, rest = page.read_text().partition(HEADING)
    assert heading, f"{page} has no {HEADING!r}"
    lines = rest.split("\n")
    last = max(i for i, line in enumerate(lines) if line.startswith("|"))
    page.write_text(head + heading + "\n".join([*lines[: last + 1], *rows, *lines[last + 1 :]]))


def checks(device: str, folder: Path) -> Iterator[tuple[str, Callable[[], str] | None, str]]:
    """Name, check or None, why it is not run."""
    yield "kernels", lambda: check_kernels(device), ""
    yield "training", lambda: check_training(device, folder / "one", 1), ""
    two = device == "cpu" or torch.cuda.device_count() > 1
    yield "two ranks", (lambda: check_training(device, folder / "two", 2)) if two else None, "NCCL needs 2 devices"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    if not options.rehearse and not torch.cuda.is_available():
        print(f"not run: torch {torch.__version__} finds no CUDA device")
        return NOT_RUN
    device = "cpu" if options.rehearse else "cuda"
    torch.ops.load_library(os.environ["TENSOR_TRACER_BUILD"] + "/lib/libtensor_tracer_torch.so")
    passed = failed = 0
    with TemporaryDirectory() as folder:
        for name, check, why in checks(device, Path(folder)):
            try:
                said = "not run: " + why if check is None else "ok: " + check()
                passed += check is not None
            except (AssertionError, RuntimeError, subprocess.TimeoutExpired) as error:
                said = f"FAILED: {error}"
                failed += 1
            print(f"{name}: {said}", flush=True)
        rows = measure(device, Path(folder) / "cost", options.rehearse) if failed == 0 else []
    print("\n".join(rows))
    if options.write and not options.rehearse:
        write_rows(rows)
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
