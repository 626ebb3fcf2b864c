"""Training scripts that test_attach_scripts.py runs: what people do with a model, its optimizer and its trainer.

`attach`: arguments of attach(). Each function returns what the test looks at.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import torch
from attach_scenarios import Training
from attached_training import VOCABULARY, batch_of, loss_of, make_model
from torch import Tensor, nn


def ids_of(step: int) -> Tensor:
    return batch_of(step, 0, {"wrap": "none"}, 0, 1)


def retried(attach: dict[str, Any]) -> tuple[list[int], int]:
    """The steps of three trainings of one model by Transformers' Trainer, of which an exception ends the first two."""
    from attached_trainer import Texts
    from transformers import Trainer, TrainingArguments

    import tensor_tracer.hf

    folder = Path(attach["run_dir"]).parent
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"), max_steps=3, per_device_train_batch_size=2, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    model, steps = make_model("gpt2", "none"), []

    def train(trainer: Trainer, fails: bool) -> None:
        calls = iter(range(1, 100))

        def trouble(*_: Any) -> None:
            if next(calls) == 2:
                raise RuntimeError("out of memory")

        handle = model.register_forward_pre_hook(trouble) if fails else contextlib.closing(open(os.devnull))
        try:
            trainer.train()
        except RuntimeError as error:
            assert "out of memory" in str(error), error
        if fails:
            handle.remove()
        steps.append(trainer.state.global_step)

    def trainer() -> Trainer:
        return Trainer(model, arguments, train_dataset=Texts(), callbacks=[tensor_tracer.hf.TracerCallback(port=0)])

    os.chdir(folder)
    first = trainer()
    train(first, True)
    train(first, True)
    train(trainer(), False)
    return steps, sum(len(one._forward_hooks) for one in model.modules())


def closed(attach: dict[str, Any], is_by_name: bool) -> list[float]:
    """The norm of the gradient in each step of an optimizer that computes it by a closure."""
    training = Training("plain", "none", attach)
    training.run.watch_optimizer(training.optimizer)
    norms = []
    for step in range(1, 6):

        def closure(step: int = step) -> Tensor:
            training.optimizer.zero_grad()
            loss = loss_of(training.model, ids_of(step))
            loss.backward()
            return loss

        with training.run.step():
            training.optimizer.step(closure=closure) if is_by_name else training.optimizer.step(closure)
        norms.append(sum(float(one.grad.double().square().sum()) for one in training.model.parameters()) ** 0.5)
    training.run.detach()
    return norms


def accelerated(attach: dict[str, Any]) -> tuple[list[float], dict[str, Any]]:
    """With the model and the optimizer of Accelerate in bfloat16: the norms of the gradients, and the place Logits."""
    from accelerate import Accelerator

    training = Training("gpt2", "none", None)
    model, optimizer = Accelerator(mixed_precision="bf16", cpu=True).prepare(training.model, training.optimizer)

    import tensor_tracer as tt

    run = tt.attach(model, **attach)
    run.watch_optimizer(optimizer)
    norms = []
    for step in range(1, 5):
        with run.step():
            model(input_ids=ids_of(step), labels=ids_of(step)).loss.backward()
            norms.append(sum(float(one.grad.double().square().sum()) for one in model.parameters()) ** 0.5)
            optimizer.step()
            optimizer.zero_grad()
    [logits] = [one for one in run.points() if one["name"] == "Logits"]
    run.detach()
    return norms, logits


def hooked(attach: dict[str, Any], part: str) -> tuple[str, list[str]]:
    """With a hook of the script on a module of one layer: why the tracer is off, and the names of the places."""
    training = Training("llama", "none", None)
    training.model.model.layers[0].get_submodule(part).register_forward_hook(scaled)

    import tensor_tracer as tt

    training.run = tt.attach(training.model, **attach)
    for step in range(1, 4):
        training.step(step)
    names = [one["name"] for one in training.run.points() if not one["problem"]]
    off = training.run._off
    training.run.detach()
    return off, names


def tried_twice(attach: dict[str, Any]) -> None:
    """In each step, the forward fails in the second layer, and then runs with half of the batch."""
    training = Training("llama", "none", attach)

    def fails(*_: Any) -> None:
        raise RuntimeError("out of memory")

    for step in range(1, 5):
        with training.run.step():
            handle = training.model.model.layers[1].register_forward_pre_hook(fails)
            with contextlib.suppress(RuntimeError):
                loss_of(training.model, ids_of(step))
            handle.remove()
            training.take(loss_of(training.model, ids_of(step)[:1]))
    training.run.detach()


def scaled(_module: nn.Module, _args: Any, output: Any) -> Any:
    return (output[0] * 1.0, *output[1:]) if isinstance(output, tuple) else output * 1.0


def resized(attach: dict[str, Any]) -> None:
    """The output layer is replaced after step 3."""
    training = Training("llama", "none", attach)

    def before(step: int) -> None:
        if step == 4:
            training.model.resize_token_embeddings(VOCABULARY + 8)
            training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.1)

    training.steps(5, before)


def forked(folder: Path) -> None:
    """A child that is forked from a process with a run leaves by sys.exit."""
    import tensor_tracer as tt

    model = make_model("plain", "none")
    run = tt.attach(model, port=0, run_dir=folder)
    for step in range(1, 4):
        with run.step():
            loss_of(model, ids_of(step)).backward()
        if step == 2 and (child := os.fork()) == 0:
            sys.exit(0)
    print("child", os.waitpid(child, 0)[1])
    run.detach()


def numbered(attach: dict[str, Any]) -> str:
    """A training that leaves out two steps, and the refusal of a step that has been."""
    import tensor_tracer as tt

    model = make_model("plain", "none")
    run = tt.attach(model, **attach)
    for number in (None, None, 5, None):
        with run.step(number=number):
            loss = loss_of(model, ids_of(1))
            loss.backward()
        run.log(loss=loss)
    assert run.step_number == 6
    try:
        run.begin_step(number=6)
    except tt.TensorTracerError as error:
        return str(error)
    finally:
        run.detach()
    return ""


def unnamed(attach: dict[str, Any]) -> str:
    """A model without tokens, with the default plan; and the refusal of a logged step."""
    import tensor_tracer as tt

    model = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 1))
    run = tt.attach(model, **attach)
    for _ in range(3):
        with run.step():
            model(torch.randn(16, 10)).sum().backward()
    try:
        run.log(step=99, loss=1.25)
    except tt.TensorTracerError as error:
        return str(error)
    finally:
        run.detach()
    return ""


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.embedding, self.encoder = nn.Embedding(VOCABULARY, 16), nn.TransformerEncoder(layer, 3)

    def forward(self, ids: Tensor) -> Tensor:
        output: Tensor = self.encoder(self.embedding(ids), src_key_padding_mask=ids == 0)
        return output


def nested(attach: dict[str, Any], program: str) -> list[Tensor]:
    """What the last layer of an encoder of padded rows takes in three evaluations, as [batch, sequence, features]. There
    PyTorch's encoder passes nested tensors on. The program is in force in the last one; the weights are always the same."""
    import tensor_tracer as tt

    torch.manual_seed(4)
    model, taken = Encoder(), []
    ids = torch.randint(1, VOCABULARY, (2, 12))
    ids[1, 7:] = 0
    run = tt.attach(model, **attach)
    for step in range(3):
        if step == 2:
            run.intervene(program)
        with run.step():
            model.train()(ids).sum().backward()
        handle = model.encoder.layers[-1].register_forward_pre_hook(lambda _, args: taken.append(args[0]))
        with torch.no_grad():
            model.eval()(ids)
        handle.remove()
    run.detach()
    assert all(one.is_nested for one in taken)
    return [one.to_padded_tensor(0.0) for one in taken]


if __name__ == "__main__":
    forked(Path(sys.argv[1]))
