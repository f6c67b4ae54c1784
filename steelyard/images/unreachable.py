"""What can go wrong between here and a place elsewhere: nobody answers now, or the answer is no."""

from __future__ import annotations

from steelyard.errors import ImageError

__all__ = ["Refused", "UnreachableError"]


class UnreachableError(ImageError):
    """An image lies where nobody answers at the moment; it is not lost, and is read again later."""

    def __init__(self, path: str, said: str) -> None:
        super().__init__(path, f"cannot be reached now ({said}); it is tried again later")
        self.said = said

    def __reduce__(self) -> tuple[type[UnreachableError], tuple[str, str]]:
        return type(self), (self.path, self.said)


class Refused(Exception):
    """A server's answer that asking again would not change; `remote` turns it into an error that names the address."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
