"""Follow and steer a Tensor Tracer run, or read its recording. README.md says how it is used.

    with connect(run_dir="runs/x") as run:
        for record in run.records(point="HiddenStates", layers="1-4"):
            print(record.step, record.layer, record.values.mean())

    steps, losses = open_recording("runs/x/run.ttrec").scalars("loss")

Messages and records are those of docs/protocol.md, recordings those of docs/recording.md.
"""

from tensor_tracer.checksum import crc32c
from tensor_tracer.control import Control
from tensor_tracer.errors import ConnectionLost, HubError, RecordError, TensorTracerError
from tensor_tracer.messages import Boundary, State
from tensor_tracer.record import Array, Record, decode_records
from tensor_tracer.recording import Recording, open_recording
from tensor_tracer.run import Run, connect
from tensor_tracer.version import __version__

__all__ = [
    "Array", "Boundary", "ConnectionLost", "Control", "HubError", "Record", "RecordError", "Recording", "Run",
    "State", "TensorTracerError", "__version__", "connect", "crc32c", "decode_records", "open_recording",
]  # fmt: skip
