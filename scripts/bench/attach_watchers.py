"""The tools that scripts/bench.sh attach puts into a training, ours and the opponents. Each is switched on for a block
of steps and off again."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from attach_numbers import megatron_sums, statistics
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

STATS = {"rows": 0, "compressor": {"kind": "stats"}}
EVERY = 50  # steps, of the sparse row


def linears(model: nn.Module) -> dict[str, nn.Module]:
    """The linear layers, by their paths."""
    from transformers.pytorch_utils import Conv1D

    return {path: one for path, one in model.named_modules() if isinstance(one, (nn.Linear, Conv1D))}


def plan_of_statistics(every: int) -> dict[str, Any]:
    """The statistics of output and gradient of every linear layer of GPT-2."""
    of_layer = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    points = [f"layers[n].{path}.output*" for path in of_layer] + ["lm_head.output*"]
    directions = ("value", "gradient")
    return {"entries": [{"point": p, "direction": d, "every": every, **STATS} for p in points for d in directions]}


def is_first_rank() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


class Watcher:
    """No tool. The others replace what they need. `folder`: for files, on this rank alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, model: nn.Module) -> None:
        """Before a block. `model`: in DistributedDataParallel or not. Collective over all ranks."""

    def begin_step(self) -> None:
        """As the trainer calls it before a step."""

    def end_step(self, loss: Tensor) -> None:
        """As the trainer calls it after a step."""

    def stop(self) -> None:
        """After a block: nothing of the tool is left in the model. Collective over all ranks."""

    def gradient_seconds(self) -> float:
        """CPU seconds so far in hooks that are not Python's."""
        return 0.0


class Tracer(Watcher):
    """Ours, with a hub that records what the plan asks for."""

    every = 0  # 0: nothing is traced

    def start(self, model: nn.Module) -> None:
        import tensor_tracer as tt

        plan = plan_of_statistics(self.every) if self.every else {"entries": []}
        shutil.rmtree(self.folder, ignore_errors=True)
        self._run = tt.attach(model, None, plan=plan, record=self.folder, run_dir=self.folder / "run")

    def begin_step(self) -> None:
        self._run.begin_step()

    def end_step(self, loss: Tensor) -> None:
        self._run.end_step()
        self._run.log(loss=loss)

    def stop(self) -> None:
        self._run.detach()

    def gradient_seconds(self) -> float:
        return float(self._run._native.tracer_seconds())


class Statistics(Tracer):
    every = 1


class SparseStatistics(Tracer):
    every = EVERY


class Hooks(Watcher, ABC):
    """Python hooks on the linear layers. `take` gets each output, and with its gradients each output's gradient."""

    ranks = "first"  # or "all": those that have hooks

    def start(self, model: nn.Module) -> None:
        self._handles: list[RemovableHandle] = []
        if self.ranks == "all" or is_first_rank():
            inner = getattr(model, "module", model)
            for path, module in linears(inner).items():
                self._handles.append(module.register_forward_hook(self._forward_hook(path)))
                self._handles.append(module.register_full_backward_hook(self._backward_hook(path)))

    def _forward_hook(self, path: str) -> Any:
        return lambda _module, _inputs, output: self.take(path, "value", output.detach())

    def _backward_hook(self, path: str) -> Any:
        return lambda _module, _inputs, gradients: self.take(path, "gradient", gradients[0])

    @abstractmethod
    def take(self, path: str, direction: str, tensor: Tensor) -> None: ...

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()


class PlainHooks(Hooks):
    """The numbers of Statistics."""

    def start(self, model: nn.Module) -> None:
        self.numbers: dict[tuple[str, str], Tensor] = {}  # of the last step
        super().start(model)

    @torch.no_grad()
    def take(self, path: str, direction: str, tensor: Tensor) -> None:
        self.numbers[path, direction] = statistics(tensor)


class MegatronMetrics(Hooks):
    """Megatron-LM's metrics `l2`, `layer-max`, `mean-row-l2` and `mean-column-l2`, of the batch of all ranks. As there, a rank
    keeps small sums while it computes, and the ranks put them together at the end of the step."""

    ranks = "all"

    def start(self, model: nn.Module) -> None:
        self.metrics: dict[tuple[str, str], Tensor] = {}  # of the last step
        self._kept: dict[tuple[str, str], tuple[int, tuple[Tensor, Tensor, Tensor]]] = {}
        super().start(model)

    @torch.no_grad()
    def take(self, path: str, direction: str, tensor: Tensor) -> None:
        self._kept[path, direction] = tensor.numel() // tensor.shape[-1], megatron_sums(tensor)

    @torch.no_grad()
    def end_step(self, loss: Tensor) -> None:
        most = torch.stack([sums[0] for _, sums in self._kept.values()])
        added = torch.cat([torch.cat([sums[1].view(1), sums[2]]) for _, sums in self._kept.values()])
        ranks = 1
        if dist.is_initialized():
            dist.all_reduce(most, dist.ReduceOp.MAX)
            dist.all_reduce(added)
            ranks = dist.get_world_size()
        at = 0
        for index, (key, (lines, sums)) in enumerate(self._kept.items()):
            columns = added[at + 1 : at + 1 + sums[2].numel()]
            l2 = columns.sum().sqrt()
            self.metrics[key] = torch.stack([l2, most[index], added[at] / (lines * ranks), columns.sqrt().mean()])
            at += 1 + columns.numel()
        self._kept.clear()


class Wandb(Watcher):
    """W&B offline: histograms of all weights and their gradients, on the first rank."""

    def start(self, model: nn.Module) -> None:
        self._run: Any = None
        if is_first_rank():
            import wandb

            self.folder.mkdir(parents=True, exist_ok=True)
            self._run = wandb.init(project="bench", mode="offline", dir=str(self.folder))
            self._model = getattr(model, "module", model)
            self._run.watch(self._model, log="all", log_freq=1)

    def end_step(self, loss: Tensor) -> None:
        if self._run is not None:
            self._run.log({"loss": float(loss)})

    def stop(self) -> None:
        if self._run is not None:
            self._run.unwatch(self._model)
            self._run.finish()


class Inspect(Hooks):
    """nvdlfw-inspect's own LogTensorStats, which hooks call; Transformer Engine, whose layers would, needs CUDA."""

    def start(self, model: nn.Module) -> None:
        if is_first_rank():
            import nvdlfw_inspect.api as api

            self._api = api
            self.folder.mkdir(parents=True, exist_ok=True)
            wanted = ["min", "max", "mean", "std", "l1_norm", "l2_norm"]
            of_tensors = {"enabled": True, "tensors": ["output", "gradient"], "stats": wanted, "freq": 1}
            layers = {"layer_name_regex_pattern": ".*"}
            config = {"linears": {"enabled": True, "layers": layers, "LogTensorStats": of_tensors}}
            api.initialize(config_file=config, log_dir=str(self.folder))
        super().start(model)

    @torch.no_grad()
    def take(self, path: str, direction: str, tensor: Tensor) -> None:
        name = "output" if direction == "value" else "gradient"
        self._api.log_tensor_stats(path, tensor=tensor, tensor_name=name, skip_reduction=True)

    def end_step(self, loss: Tensor) -> None:
        if is_first_rank():
            self._api.step()

    def stop(self) -> None:
        super().stop()
        if is_first_rank():
            self._api.end_debug()


WATCHERS: dict[str, type[Watcher]] = {
    "idle": Tracer, "statistics": Statistics, "sparse": SparseStatistics, "hooks": PlainHooks,
    "megatron": MegatronMetrics, "wandb": Wandb, "inspect": Inspect,
}  # fmt: skip
