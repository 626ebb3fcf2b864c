"""What test_attach_adapters.py runs in a process that has torch."""

from __future__ import annotations

import sys
from types import ModuleType


def callbacks() -> dict[str, object]:
    """By adapter, the class of the Trainer's callbacks that its callback is; whether it was imported before its use."""
    import tensor_tracer as tt

    pytorch = ModuleType("lightning.pytorch")  # the real one is in test_attach_lightning.py
    pytorch.Callback = type("Callback", (), {})
    pytorch.LightningModule = pytorch.Trainer = object
    sys.modules |= {"lightning": ModuleType("lightning"), "lightning.pytorch": pytorch}
    early = [name for name in ("hf", "lightning") if f"tensor_tracer.{name}" in sys.modules]
    bases = {one: [base.__name__ for base in getattr(tt, one).TracerCallback.__mro__] for one in ("hf", "lightning")}
    return {"early": early, **bases}
