"""What can be wrong, in one line with its remedy."""

from __future__ import annotations


class ExampleError(Exception):
    """The message says what is wrong and what to do."""
