"""A training on a device that gpu_check.py starts, by itself or by torchrun with tensor parallelism.

    python gpu_training.py OUT '{"device": "cuda", "watches": "everything", …}'

Rank 0 writes OUT/result.json: losses, and the number of records that equal what PyTorch's own hooks kept.
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import tensor_tracer as tt
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

VOCABULARY = 128
LEARNING = 2  # steps in which the tracer, and the allocator, learn what a step needs


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.down(nn.functional.gelu(self.up(self.norm(hidden))))


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(4))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.embedding(ids)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def plan_of(watches: str) -> dict[str, object]:
    """`watches`: everything; the stats of each linear layer's output and gradient, at every step or every 50th; tiles of
    their first row, as a heat map has them; idle."""
    stats = {"kind": "stats"}
    kind = {"everything": {"kind": "none"}, "stats": stats, "every 50th": stats, "tiles": {"kind": "tile", "tiles": 96}}
    if watches not in kind:
        return {"entries": []}
    points = ["*"] if watches == "everything" else ["*up.output", "*down.output", "Logits"]
    rows, every = (1 if watches == "tiles" else 0), (50 if watches == "every 50th" else 1)
    more = {"rows": rows, "compressor": kind[watches], "every": every}
    directions = ("value", "gradient")
    return {"entries": [{"point": point, "direction": one, **more} for point in points for one in directions]}


class Witness:
    """Keeps the output of each module and its gradient on the device, by step and path."""

    def __init__(self, root: nn.Module) -> None:
        self.kept: dict[tuple[int, str, str], Tensor] = {}
        self.step = 0
        for path, module in root.named_modules():
            module.register_forward_hook(self._hook(path))

    def _hook(self, path: str):
        def hook(_module: nn.Module, _args: object, output: Tensor) -> None:
            step = self.step
            self.kept[step, path, "value"] = whole(output)
            if output.requires_grad:
                output.register_hook(
                    lambda gradient: self.kept.__setitem__((step, path, "gradient"), whole(gradient)))

        return hook


def whole(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


class PlainHooks:
    """The numbers that one would compute in hooks, without a tracer: five of each output and gradient."""

    def __init__(self, root: nn.Module) -> None:
        self.numbers: list[Tensor] = []
        linears = [module for module in root.modules() if isinstance(module, nn.Linear)]
        self._handles = [module.register_forward_hook(self._hook) for module in linears]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook(self, _module: nn.Module, _args: object, output: Tensor) -> None:
        self._take(output.detach())
        output.register_hook(self._take)

    def _take(self, tensor: Tensor) -> None:
        self.numbers.append(torch.stack([tensor.mean(), tensor.std(), tensor.min(), tensor.max(), tensor.norm()]))


def is_output(point: dict[str, object]) -> bool:
    return not point["problem"] and "input" not in str(point["path"]).split(".")


def recorded(path: Path, last_step: int) -> list[tt.Record]:
    """All records, when the hub has written those of the last step, which end with its gradients."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with tt.open_recording(path) as recording:
                records = list(recording.records())
        except tt.TensorTracerError:
            records = []
        if any(one.step == last_step and one.direction == "gradient" for one in records):
            return records
        assert time.monotonic() < deadline, f"{path} has no gradients of step {last_step}"
        time.sleep(0.2)


def has_numbers_of(record: tt.Record, seen: Tensor) -> bool:
    """Of "none": the same bits. Of "stats": the statistics that PyTorch computes in double, and the count of the bins."""
    found = torch.from_numpy(record.values.copy())
    if record.compressor != "stats":
        return torch.equal(found, seen.float().cpu())
    x = seen.double().cpu()
    norms = [x.norm(dim=-1).flatten(), x.flatten(0, -2).norm(dim=0)]
    first = torch.stack([torch.tensor(float(x.numel())), x.mean(), x.std(), x.min(), x.max(), x.norm()])
    kurtosis = (x - x.mean()).pow(4).mean() / (x - x.mean()).pow(2).mean().pow(2)
    second = torch.stack([kurtosis, x.square().mean().sqrt(), *(f(n) for n in norms for f in (torch.min, torch.mean, torch.max))])
    rows = [(found[0, :6], first), (found[1, :8], second)]
    are_close = all(torch.allclose(one.double(), other.double(), rtol=1e-4, atol=1e-9) for one, other in rows)
    return are_close and float(found[0, 10:].sum()) == float((x != 0).sum())


def is_part(seen: Tensor, record: tt.Record, ranks: int) -> bool:
    """The witness of a rank sees the rank's part of a sharded tensor."""
    if ranks == 1:
        return False
    if record.compressor == "stats":
        return seen.numel() != int(record.values[0, 0])
    return tuple(seen.shape) != tuple(record.shape)


def compared(folder: Path, run: tt.AttachedRun, witness: Witness, ranks: int) -> int:
    """The number of records that equal what the witness kept (has_numbers_of); any other record is an error."""
    modules = {(one["name"], one["layer"]): one["module"] for one in run.points() if is_output(one)}
    count = 0
    for record in recorded(next((folder / "record").glob("*.ttrec")), witness.step):
        module = modules.get((record.point, record.layer))
        seen = witness.kept.get((record.step, module, record.direction)) if module is not None else None
        if seen is None or is_part(seen, record, ranks):
            continue
        assert has_numbers_of(record, seen), record
        count += 1
    return count


def start_ranks(model: nn.Module, device: str) -> int:
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks == 1:
        return 1
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    mesh = init_device_mesh(device, (ranks,), mesh_dim_names=("tp",))
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return ranks


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer, ids: Tensor, run: tt.AttachedRun | None,
             may_not_wait: bool) -> Tensor:
    """`may_not_wait`: for the device; then a wait is an error."""
    if may_not_wait:
        torch.cuda.set_sync_debug_mode("error")
    with run.step(tokens=ids) if run is not None else contextlib.nullcontext():
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if may_not_wait:
        torch.cuda.set_sync_debug_mode("default")
    return loss.detach()


def wait_for(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    train(folder, options["device"], options)
    if dist.is_initialized():
        dist.destroy_process_group()
        end_process()


def end_process() -> None:
    """Ends the process without the end of the interpreter. The caches of DTensor keep the process group alive, and a
    gloo thread that lets go of a tensor while the interpreter ends may call std::terminate (PyTorch's issue 190489)."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def train(folder: Path, device: str, options: dict[str, object]) -> None:
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    torch.manual_seed(3)
    model = Model(64).to(device)
    ranks = start_ranks(model, device)
    watches = options["watches"]
    witness = Witness(model) if options.get("compares") else None
    run = None
    if watches != "nothing":
        run = tt.attach(model, port=0, plan=plan_of(watches), run_dir=folder / "run", record=folder / "record")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(1, options["steps"] + 1):
        if witness is not None:
            witness.step = step
        ids = torch.randint(0, VOCABULARY, (4, 16), generator=torch.Generator().manual_seed(step)).to(device)
        losses.append(one_step(model, optimizer, ids, run, device == "cuda" and step > LEARNING))
    wait_for(device)
    if run is not None:
        run.detach()
    if not dist.is_initialized() or dist.get_rank() == 0:
        same = compared(folder, run, witness, ranks) if witness is not None else 0
        result = {"losses": [float(loss) for loss in losses], "compared": same}
        (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
