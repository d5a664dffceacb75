"""A value that stays where it is: the body holds a pointer, and loads what it points to when it needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, NoReturn, TypeVar

from onward.core.encoding import Codec
from onward.core.pointers import Pointer

T = TypeVar("T")

Load = Callable[[Pointer], Awaitable[bytes]]
"""The JSON of the object that a pointer names."""


class Ref(Generic[T]):
    """Where a value lies in the payload store: `.key .sha256 .size`, and `await ref.load()` for the value.

    A step gives one with `ref=True`, or where its function is annotated to return `Ref[T]`.
    """

    __slots__ = ("_codec", "_load", "pointer")

    def __init__(self, pointer: Pointer, codec: Codec, load: Load) -> None:
        self.pointer, self._codec, self._load = pointer, codec, load

    @property
    def key(self) -> str:
        return self.pointer.key

    @property
    def sha256(self) -> str:
        return self.pointer.sha256

    @property
    def size(self) -> int:
        """Bytes of the object."""
        return self.pointer.size

    async def load(self) -> T:
        """The value, read and checked: PayloadMissing, PayloadCorrupt."""
        value: T = self._codec.decode(await self._load(self.pointer))
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and self.pointer == other.pointer

    def __hash__(self) -> int:
        return hash(self.pointer)

    def __repr__(self) -> str:
        return f"<Ref {self.key}, {self.size:,} bytes>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Ref belongs to its run: pass on what `await ref.load()` gives")


class Referred(Codec):
    """The codec of `Ref[T]`: values are those of T, and the body is given the pointer."""

    __slots__ = ("inner",)

    def __init__(self, inner: Codec) -> None:
        super().__init__(inner.type)
        self.inner = inner

    def trip(self, value: Any, what: str) -> tuple[bytes, Any]:
        return self.inner.trip(value, what)

    def decode(self, data: bytes) -> Any:
        return self.inner.decode(data)
