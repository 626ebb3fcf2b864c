"""The tracer in a training by torchtitan's Trainer.

    import tensor_tracer as tt

    trainer = config.build()
    tt.torchtitan.attach(trainer, port=8765)
    trainer.train()
    trainer.close()

Written for torchtitan 0.3.0, whose Trainer has no callbacks: four methods of the object are replaced.
"""

from __future__ import annotations

from typing import Any

from tensor_tracer.attaching import AttachedRun
from tensor_tracer.attaching import attach as attach_to_model
from tensor_tracer.attaching.contexts import kContiguous, kZigzag
from tensor_tracer.errors import TensorTracerError

_kOrders = {"headtail": kZigzag, None: kContiguous}  # of tokens, by the load balancer


def attach(trainer: Any, **options: Any) -> Tracing:
    """Has a torchtitan.trainer.Trainer run each step inside run.step() and log the loss, the norm of the gradient and
    the learning rate of the steps whose metrics torchtitan logs.

    Attaches in the first step, with the `options` of attach(): only then does the trainer know the number of the step.
    `trainer.close()` detaches. A viewer who stops the run ends the training as its last step does, with a checkpoint
    if checkpoints are on. Raises TensorTracerError. Call it on every rank.
    """
    if trainer.parallel_dims.pp_enabled:
        message = "the trainer has pipeline stages, and the tracer follows whole models"
        raise TensorTracerError("invalid_argument", message, "trainer", "train without pipeline stages")
    if not trainer.config.training.disable_cuda_graphs:
        message = "the trainer replays CUDA graphs, which call no hooks of modules"
        raise TensorTracerError("compiled", message, "trainer", "give --training.disable_cuda_graphs")
    return Tracing(trainer, _contexts_of(trainer) | options)


def _contexts_of(trainer: Any) -> dict[str, Any]:
    """The options of attach() for the ranks that share each sequence."""
    if not trainer.parallel_dims.cp_enabled:
        return {}
    balancer = trainer.config.parallelism.context_parallel_load_balancer
    if balancer not in _kOrders:
        message = f"with the load balancer {balancer!r}, the tokens of a rank depend on the mask"
        remedy = "give --parallelism.context_parallel_load_balancer headtail"
        raise TensorTracerError("invalid_argument", message, "trainer", remedy)
    group = trainer.parallel_dims.get_mesh("cp").get_group()
    return {"context_parallel_group": group, "context_parallel_order": _kOrders[balancer]}


class Tracing:
    """What attach() has put into a trainer. `run`: the attached run; None before the first step and after the end."""

    def __init__(self, trainer: Any, options: dict[str, Any]) -> None:
        self.run: AttachedRun | None = None
        self._trainer = trainer
        self._options = {"trainer": "torchtitan"} | options
        self._numbers: dict[str, float] = {}  # of the step that runs
        self._train_step, trainer.train_step = trainer.train_step, self._traced_step
        self._log, trainer.metrics_processor.log = trainer.metrics_processor.log, self._keep_numbers
        self._goes_on, trainer.should_continue_training = trainer.should_continue_training, self._may_continue
        self._close, trainer.close = trainer.close, self._detach

    def _traced_step(self, *args: Any, **kwargs: Any) -> Any:
        if self.run is None:
            self.run = attach_to_model(self._trainer.model_parts, **({"first_step": self._trainer.step} | self._options))
        with self.run.step():
            result = self._train_step(*args, **kwargs)
        self.run.log(**self._numbers)
        self._numbers = {}
        return result

    def _keep_numbers(
        self, step: int, global_avg_loss: float, global_max_loss: float, grad_norm: float,
        extra_metrics: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        rates = [value for name, value in (extra_metrics or {}).items() if name.startswith("lr/")]
        self._numbers = {"loss": global_avg_loss, "grad_norm": grad_norm} | ({"lr": rates[0]} if rates else {})
        self._log(step, global_avg_loss, global_max_loss, grad_norm, extra_metrics)

    def _may_continue(self) -> bool:
        if not self._goes_on():
            return False
        if self.run is None or self.run.may_continue():
            return True
        self._trainer.checkpointer.save(self._trainer.step, last_step=True)
        return False

    def _detach(self) -> None:
        if self.run is not None:
            self.run.detach()
            self.run = None
        self._close()
