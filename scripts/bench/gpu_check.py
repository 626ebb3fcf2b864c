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
    {"kind": "projection", "vectors": ["given"], "cosine": True},
    {"kind": "topk", "k": 10}, {"kind": "topk", "k": 256}, {"kind": "outliers", "k": 10},
    {"kind": "top_tokens", "columns": [5, 0, 77]},
]  # fmt: skip
TESTS = ["tests/oracle/programs_on_device.py", *(
    f"tests/oracle/test_attach{name}.py"
    for name in ("", "_attention", "_lens", "_points", "_prompts", "_safety", "_updates", "_weights")
)]  # fmt: skip
SIDE_BY_SIDE = ("-n12", "--dist=loadgroup")
ROWS = {
    "idle": "none", "every 50th": "stats of every linear layer's output and gradient, every 50th step",
    "stats": "the same at every step", "tiles": "96 tiles of each token of the first batch row, at every step",
    "hooks": "mean, deviation, least, most and norm by PyTorch's hooks, at every step",
}  # fmt: skip
SHAPES = [(2, 3, 300), (1, 130, 320), (2, 200, 4096), (1, 4, 50257)]


def numbers_of(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    numbers[0, 0, :64] = -torch.inf
    numbers[-1, -1, -1] = torch.nan
    numbers[0, -1, 64:128] = 0
    return numbers.to(dtype)


def packed(numbers: torch.Tensor, compressor: dict[str, object], vector: torch.Tensor) -> torch.Tensor:
    return torch.ops.tensor_tracer.pack(numbers, json.dumps(compressor), vector)


def differing(one: torch.Tensor, other: torch.Tensor) -> int:
    """The number of bytes that differ. A NaN has other bits on the device than on the CPU."""
    are_equal = one == other
    for dtype in (torch.float32, torch.float64):
        size = dtype.itemsize
        whole = len(one) // size * size
        are_nan = [numbers[:whole].view(dtype).isnan() for numbers in (one, other)]
        are_equal[:whole] |= (are_nan[0] & are_nan[1]).repeat_interleave(size)
    return int((~are_equal).sum())


def check_kernels(device: str) -> str:
    """Every kernel writes the bytes that the CPU writes."""
    count, failed = 0, []
    for shape in SHAPES:
        vector = torch.randn(shape[-1], generator=torch.Generator().manual_seed(6))
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            numbers = numbers_of(shape, dtype)
            for compressor in COMPRESSORS:
                on_device = packed(numbers.to(device), compressor, vector).cpu()
                expected = packed(numbers, compressor, vector)
                if wrong := differing(on_device, expected):
                    failed.append(f"{compressor}, {shape}, {dtype}: {wrong} of {len(expected)} bytes differ")
                count += 1
    assert not failed, "\n".join(failed)
    return f"{count} kernels and shapes"


def started(script: str, folder: Path, ranks: int = 1, **options: object) -> dict[str, object]:
    """What a script of this folder writes into result.json."""
    folder.mkdir(parents=True)
    launcher = [] if ranks == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    path = str(Path(__file__).with_name(script))
    line = [sys.executable, *launcher, path, str(folder), json.dumps(options)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads((folder / "result.json").read_text()))


def check_training(device: str, folder: Path, ranks: int) -> str:
    """The records have the bits that PyTorch's hooks saw, or its statistics; the losses are those without the tracer; nothing in a
    watched step waits for the device."""
    script = "gpu_training.py"
    watched = started(script, folder / "watched", ranks, device=device, watches="everything", compares=True, steps=6)
    alone = started(script, folder / "alone", ranks, device=device, watches="nothing", steps=6)
    assert watched["losses"] == alone["losses"], (watched["losses"], alone["losses"])
    assert watched["compared"] > 100, watched
    stats = started(script, folder / "stats", ranks, device=device, watches="stats", compares=True, steps=6)
    assert stats["losses"] == alone["losses"] and stats["compared"] >= 50, stats
    return f"{watched['compared']} records, {stats['compared']} of stats"


def check_tests(device: str) -> str:
    """The tests of attached runs, on this device."""
    variables = os.environ | {"TT_DEVICE": device, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    line = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=short", *SIDE_BY_SIDE, *TESTS]
    done = subprocess.run(line, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr
    return done.stdout.rstrip().rpartition("\n")[2]


def measure(device: str, folder: Path, is_rehearsal: bool) -> list[str]:
    """Rows: the step time with the numbers of a row, over that without."""
    size = {"width": 2048, "batch": 8, "tokens": 1024, "steps": 100, "turns": 5}
    if is_rehearsal:
        size = {"width": 128, "batch": 2, "tokens": 16, "steps": 3, "turns": 1}
    times: dict[str, list[float]] = started("gpu_costs.py", folder, device=device, **size)
    where = device if is_rehearsal else torch.cuda.get_device_name()
    rows = []
    for kind, text in ROWS.items():
        ratios = sorted(one / alone for one, alone in zip(times[kind], times["nothing"], strict=True))
        middle = [sorted(times[one])[len(ratios) // 2] for one in ("nothing", kind)]
        rows.append(
            f"| {time.strftime('%Y-%m-%d')} | {where} | {torch.__version__} | {text} | {middle[0]:.2f} | {middle[1]:.2f} "
            f"| {ratios[len(ratios) // 2]:.4f} | {ratios[0]:.4f} to {ratios[-1]:.4f} |"
        )
    return rows


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
    yield "tests", (lambda: check_tests(device)) if device != "cpu" else None, "they run on the CPU in the suites"
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
