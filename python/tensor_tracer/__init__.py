"""Follow and steer a Tensor Tracer run, or read its recording. README.md describes its use.

    with connect(run_dir="runs/x") as run:
        for record in run.records("HiddenStates", layers="1-4", compressor="tile"):
            print(record.step, record.layer, record.values.mean())

    recording = open_recording("runs/x/run.ttrec")
    steps, losses = recording.scalars("loss")
    recording.records("HiddenStates", compressor="tile").to_xarray()

    run = attach(model)  # the tracer inside a PyTorch training; docs/attach.md
    megatron.wrap_train_step(train_step)  # the same for Megatron-LM
    torchtitan.attach(trainer)  # and for torchtitan
    hf.TracerCallback(), lightning.TracerCallback()  # for the Trainer of Transformers, and of Lightning
    vectors.extract(run, positive, negative)  # direction vectors; docs/vectors.md

docs/protocol.md defines messages and records, docs/recording.md defines recordings.
"""

from importlib import import_module
from typing import Any

from tensor_tracer.connecting import connect
from tensor_tracer.control import Control
from tensor_tracer.errors import ConnectionLost, HubError, RecordError, TensorTracerError
from tensor_tracer.messages import Boundary, State
from tensor_tracer.record import Array, Record, decode_records
from tensor_tracer.recording import Recording, open_recording
from tensor_tracer.records import Records
from tensor_tracer.run import Run
from tensor_tracer.version import __version__

__all__ = [
    "Array", "Boundary", "ConnectionLost", "Control", "HubError", "Record", "RecordError", "Recording", "Records",
    "Run", "State", "TensorTracerError", "__version__", "connect", "decode_records", "open_recording",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """What needs torch, which the rest of the package does not."""
    modules = ("hf", "lightning", "megatron", "torchtitan", "vectors")
    if name not in (*modules, "attach", "point", "AttachedRun", "Replicate", "RunStopped", "Shard"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in modules:
        return import_module(f"tensor_tracer.{name}")
    return getattr(import_module("tensor_tracer.attaching"), name)
