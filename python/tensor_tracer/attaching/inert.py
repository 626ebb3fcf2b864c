"""Hooks that do not go along when somebody copies or saves the model that has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hook:
    """Calls a function as a hook of a module. In a copy of the module (copy.deepcopy, as for an average of the weights)
    and in one that was pickled (torch.save), a hook that does nothing is in its place."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __deepcopy__(self, _memo: dict[int, Any]) -> Callable[..., None]:
        return do_nothing

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return _make_inert, ()


def do_nothing(*_args: Any, **_kwargs: Any) -> None:
    """A hook that changes nothing."""


def _make_inert() -> Callable[..., None]:
    return do_nothing
