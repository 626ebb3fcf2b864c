"""Trainings of a small Llama of Transformers whose ranks share each sequence, which test_attach_contexts.py runs on forked
ranks. Its attention gathers the keys and values of the context-parallel ranks. Hooks of mesh_training.py, which know
nothing of the tracer, keep what each module took and returned on this rank, and its gradient."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
from attached_training import give_own_inputs
from mesh_training import (
    ROWS, STEPS, TOKENS, Witness, batch_of, layer_styles, make_model, model_styles, modules_with_styles,
)  # fmt: skip
from shared_sequences import all_gather, order_of_whole, tokens_of_rank
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def use_shared_attention(model: nn.Module, group: Any, order: str) -> None:
    ranks = dist.get_world_size(group)
    own, places = tokens_of_rank(TOKENS, dist.get_rank(group), ranks, order), order_of_whole(TOKENS, ranks, order)

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, _mask: Any, scaling: float, **_: Any
    ) -> tuple[Tensor, None]:  # fmt: skip
        copies = query.shape[1] // key.shape[1]
        key, value = (torch.cat(all_gather(one, group), 2)[:, :, places] for one in (key, value))
        key, value = (one.repeat_interleave(copies, 1) for one in (key, value))
        is_seen = torch.arange(TOKENS) <= own[:, None]
        found = nn.functional.scaled_dot_product_attention(query, key, value, is_seen, scale=scaling)
        return found.transpose(1, 2).contiguous(), None

    ALL_ATTENTION_FUNCTIONS.register("shared", attend)
    model.config._attn_implementation = "shared"


def loss_of(model: nn.Module, step: int, rows: slice, own: Tensor) -> Tensor:
    """The part of the mean over all tokens of the batch: the sum over the context-parallel ranks is the loss."""
    ids = batch_of(step)[rows]
    labels = torch.cat([ids[:, 1:], torch.full((len(ids), 1), -100)], 1)
    logits = model(input_ids=ids[:, own], position_ids=own[None]).logits
    logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
    total = nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, own].flatten(), reduction="sum")
    return total / (len(ids) * (TOKENS - 1))


def train(
    shape: tuple[int, int, int], order: str, attach: dict[str, Any] | None, programs: dict[str, str],
    sharing: str = "none",
) -> dict[str, Any]:  # fmt: skip
    """`shape`: the numbers of data, context and tensor-parallel ranks. `sharing`: how the latter share tensors, "tensor" or
    "sequence"; one process gives modules the tensors that they would have then."""
    model: Any = make_model()
    is_sequence_parallel = sharing == "sequence"
    group, replica, own = None, 0, torch.arange(TOKENS)
    if dist.is_initialized():
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "cp", "tp"))
        group, replica = mesh["cp"].get_group(), mesh.get_local_rank("dp")
        own = tokens_of_rank(TOKENS, mesh.get_local_rank("cp"), shape[1], order)
        if shape[2] > 1:
            for layer in model.model.layers:
                parallelize_module(layer, mesh["tp"], layer_styles(is_sequence_parallel))
            parallelize_module(model, mesh["tp"], model_styles(is_sequence_parallel))
        use_shared_attention(model, group, order)
    elif sharing != "none":
        give_own_inputs(modules_with_styles(model, is_sequence_parallel))
    witness = Witness(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
    run: Any = None
    if attach is not None:
        import tensor_tracer as tt

        groups = len(dist.distributed_c10d._world.pg_map)
        contexts = {"context_parallel_group": group, "context_parallel_order": order} if group is not None else {}
        run = tt.attach(model, **attach, **contexts)
        run.watch_optimizer(optimizer)
    losses, rows, refused = [], ROWS // shape[0], {}
    for step in range(1, STEPS + 1):
        witness.step = step
        with run.step() if run is not None else contextlib.nullcontext():
            loss = loss_of(model, step, slice(replica * rows, (replica + 1) * rows), own)
            loss.backward()
            for weight in model.parameters():
                gradient = weight.grad.to_local() if isinstance(weight.grad, DTensor) else weight.grad
                if group is not None:
                    dist.all_reduce(gradient, group=group)
                    dist.all_reduce(gradient, group=mesh["dp"].get_group())
                    gradient /= shape[0]
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(loss.detach()))
        if step == 1 and run is not None:
            from attached_programs import apply

            refused = apply(run, programs)
    found = {"losses": losses, "values": witness.values, "gradients": witness.gradients, "refused": refused}
    found |= {"partial": witness.partial, "own": own, "points": run.points() if run is not None else []}
    if run is not None:
        run.detach()
        assert len(dist.distributed_c10d._world.pg_map) == groups, "a process group is left"
    return found


def refused(order: str | None, kind: str, attach: dict[str, Any]) -> str:
    """The message of attach() on two by two ranks. `kind`: of the groups that are given."""
    import tensor_tracer as tt

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("cp", "tp"))
    own = mesh if dist.get_rank() == 1 else mesh["cp"]
    context, tensor = {
        "right": (mesh["cp"], mesh["tp"]), "swapped": (mesh["tp"], mesh["cp"]), "the same": (mesh["cp"], mesh["cp"]),
        "none": (None, mesh["tp"]), "a mesh on one rank": (own, mesh["tp"]), "a list": ([0, 1], mesh["tp"]),
    }[kind]  # fmt: skip
    try:
        tt.attach(
            make_model(), **attach, context_parallel_group=context, context_parallel_order=order, tensor_parallel_group=tensor
        )
    except tt.TensorTracerError as error:
        return str(error)
    return ""


def of_lengths(lengths: list[list[int]], attach: dict[str, Any], evaluates: bool = False) -> None:
    """A model without attention, whose ranks share sequences in the order zigzag. `lengths`: the tokens of each rank, by
    step. `evaluates`: after each step rank 0 alone runs whole sequences."""
    import tensor_tracer as tt
    from attached_training import VOCABULARY, make_model

    rank = dist.get_rank()
    model = make_model("plain", "none")
    run = tt.attach(model, **attach, context_parallel_group=dist.group.WORLD, context_parallel_order="zigzag")
    for step, of_step in enumerate(lengths, 1):
        ids = torch.randint(0, VOCABULARY, (2, of_step[rank]), generator=torch.Generator().manual_seed(10 * step + rank))
        with run.step():
            model(ids).square().mean().backward()
        if evaluates and rank == 0:
            with torch.no_grad():
                model(torch.cat([ids, ids], 1))
    run.detach()


def of_packed(packed: list[int], attach: dict[str, Any]) -> None:
    """In the steps `packed`, the model gets packed sequences, as one of Megatron-Core may."""
    import tensor_tracer as tt
    from attached_training import Plain

    class Packing(Plain):
        def forward(self, ids: Tensor, packed_seq_params: Any = None) -> Tensor:
            return super().forward(ids)

    model = Packing()
    run = tt.attach(model, **attach, context_parallel_group=dist.group.WORLD, context_parallel_order="zigzag")
    for step in range(1, 5):
        with run.step():
            own = batch_of(step)[:, 4 * dist.get_rank() :][:, :4]
            model(own % 8, packed_seq_params=object() if step in packed else None).square().mean().backward()
    run.detach()


def stages_of_lengths(attach: dict[str, Any]) -> None:
    """Two pipeline stages of two context-parallel ranks. After step 2, they evaluate shorter sequences."""
    import tensor_tracer as tt
    from attached_training import Plain

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "cp"))
    stage, whole = mesh.get_local_rank("pp"), Plain()
    blocks = whole.blocks[:2] if stage == 0 else whole.blocks[2:]

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.blocks = whole.embedding if stage == 0 else None, blocks

        def forward(self, x: Tensor) -> Tensor:
            x = x if self.embedding is None else self.embedding(x)
            for block in self.blocks:
                x = block(x)
            return x

    model = Part()
    groups = {"pipeline_parallel_group": mesh["pp"], "context_parallel_group": mesh["cp"], "context_parallel_order": "zigzag"}
    run = tt.attach([model], **attach, **groups)

    def forward(length: int) -> Tensor:
        if stage == 0:
            sent: Tensor = model(batch_of(1)[:2, :length] % 8)
            dist.send(sent.detach(), dist.get_rank() + 2)
            return sent
        received = torch.empty(2, length, 32)
        dist.recv(received, dist.get_rank() - 2)
        return model(received)  # type: ignore[no-any-return]

    for step in range(1, 5):
        with run.step():
            forward(4).square().mean().backward()
        if step == 2:
            with torch.no_grad():
                forward(2)
    run.detach()


def sharded_updates(axis: str, attach: dict[str, Any]) -> list[float]:
    """Updates of weights that FSDP2 shards on one axis of two by two ranks. Returns the norms of the weights."""
    import tensor_tracer as tt
    from attached_training import make_model
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "cp"))
    model = make_model("plain", "none")
    fully_shard(model, mesh=mesh[axis])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    run = tt.attach(model, **attach, context_parallel_group=mesh["cp"], context_parallel_order="zigzag")
    run.watch_optimizer(optimizer)
    for step in (1, 2):
        with run.step():
            model(batch_of(step)[:, :4] % 8).square().mean().backward()
            optimizer.step()
    norms = [float(weight.full_tensor().norm()) for weight in model.parameters()]  # type: ignore[attr-defined]
    run.detach()
    return norms


def the_same(attach: dict[str, Any]) -> None:
    """Each rank gives its model whole sequences."""
    import tensor_tracer as tt
    from attached_training import make_model

    model = make_model("plain", "none")
    run = tt.attach(model, **attach, context_parallel_group=dist.group.WORLD, context_parallel_order="zigzag")
    with run.step():
        model(batch_of(1) % 8).square().mean().backward()
    run.detach()
