"""Prints what the installed pip package of libtorch needs besides itself to be linked and loaded.

A CPU build needs nothing. A CUDA build, which some indexes give by default, asks for 2 GB of libraries;
its part for the CPU loads two of them, a few megabytes.
"""

import importlib.metadata
import re

_TOOLKIT = re.compile(r"cuda-toolkit\[[^\]]*\]\s*==\s*([\d.]+)")

for requirement in importlib.metadata.requires("torch") or []:
    match = _TOOLKIT.match(requirement)
    if match:
        print(f"cuda-toolkit[cudart,cupti]=={match.group(1)}")
