"""The errors that this package raises."""

from __future__ import annotations

import sys


class TensorTracerError(Exception):
    """`code` is a stable word for programs, `where` names the wrong input, `remedy` states how to correct it."""

    def __init__(self, code: str, message: str, where: str = "", remedy: str = "") -> None:
        text = (f"{where}: " if where else "") + message + (f"; {remedy}" if remedy else "")
        super().__init__(f"{text} [{code}]")
        self.code, self.message, self.where, self.remedy = code, message, where, remedy


class HubError(TensorTracerError):
    """The hub or the trainer refused the request."""


class ConnectionLost(TensorTracerError, ConnectionError):
    """The hub cannot be reached, or the connection to it was lost."""


class RecordError(TensorTracerError, ValueError):
    """These bytes do not have the form of docs/protocol.md or docs/recording.md."""


def unknown(code: str, what: str, where: str) -> RecordError:
    return RecordError(code, f"{what} is not known", where, "update this client")


def wrong(message: str, remedy: str = "", where: str = "") -> TensorTracerError:
    """The error for a wrong argument, or a file that an argument names."""
    return TensorTracerError("invalid_argument", message, where, remedy)


def missing_package(package: str, purpose: str) -> ImportError:
    """The error for an optional package that is not installed."""
    text = f"{purpose} needs the package {package}, which is not installed; {sys.executable} -m pip install {package}"
    return ImportError(text, name=package)
