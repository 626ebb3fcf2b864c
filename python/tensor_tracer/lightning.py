"""The tracer in a Trainer of Lightning.

    trainer = Trainer(callbacks=[TracerCallback(port=8765)])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer  # type: ignore[import-not-found]
from torch import Tensor, nn

from tensor_tracer.attaching import AttachedRun, abandon, attach
from tensor_tracer.errors import TensorTracerError


class TracerCallback(Callback):  # type: ignore[misc]
    """Attaches when the training begins, with the options of `attach`, and detaches at its end. `run` is the attached
    run while the training lasts.

    `module`: the attribute of the LightningModule that gets the tokens, such as "model"; needed only if several have
    weights. A step lasts from its first batch to the step of the optimizer. Of a module with several optimizers or
    with optimization by hand, each batch must make one step. A viewer who stops the run ends the training as
    `trainer.should_stop` does.
    """

    def __init__(self, port: int | None = 8765, module: str | None = None, **options: Any) -> None:
        self.run: AttachedRun | None = None
        self._module = module
        self._options = {"port": port, "trainer": "lightning.Trainer", **options}
        self._begun: tuple[int, float] | None = None  # steps before the one that runs, and its learning rate
        self._losses: list[Tensor] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        model = _traced(pl_module, self._module)
        abandon(model, self._options["trainer"])  # after an exception in fit()
        self._begun, self._losses = None, []
        self.run = attach(model, **({"first_step": trainer.global_step + 1} | self._options))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self._begun is None:
            self._attached.begin_step()
            rates = [group["lr"] for optimizer in trainer.optimizers for group in optimizer.param_groups]
            self._begun = trainer.global_step, float(rates[0])

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        self._losses += [loss.detach()] if isinstance(loss, Tensor) else []
        if self._begun is not None and trainer.global_step > self._begun[0]:
            self._end_step()
            if not self._attached.may_continue():
                trainer.should_stop = True

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        loss = trainer.callback_metrics.get("val_loss")
        if self.run is not None and loss is not None:
            self.run.log(valid_loss=loss)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._begun is not None:
            self._end_step()
        self._attached.detach()
        self.run = None

    def _end_step(self) -> None:
        assert self._begun is not None
        self._attached.end_step()
        losses = {"loss": sum(map(float, self._losses)) / len(self._losses)} if self._losses else {}
        self._attached.log(lr=self._begun[1], **losses)
        self._begun, self._losses = None, []

    @property
    def _attached(self) -> AttachedRun:
        assert self.run is not None, "the callback runs outside of Trainer.fit()"
        return self.run


def _traced(pl_module: nn.Module, path: str | None) -> nn.Module:
    """The LightningModule itself is no model: what Lightning calls of it depends on the strategy."""
    if path is not None:
        return pl_module.get_submodule(path)
    names = [name for name, child in pl_module.named_children() if any(True for _ in child.parameters())]
    if len(names) != 1:
        message = f"{len(names)} attributes of the LightningModule have weights: {', '.join(names)}"
        remedy = "name the one that gets the tokens; if there is no such module, put the layers into one"
        raise TensorTracerError("invalid_argument", message, "module", remedy)
    return pl_module.get_submodule(names[0])
