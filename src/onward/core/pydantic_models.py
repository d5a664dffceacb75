"""The codec of pydantic's own types: pydantic decodes, by its own rules and validators.

Two models in a union look alike to msgspec, so unions of them, and a model at the top, are left to pydantic
altogether; a model inside a dataclass or a list stays with `typed`, which asks pydantic for that part only. The promise
is the same: what comes back is compared with what was given.

Onward does not depend on pydantic and does not import it. Whoever declares one of its types has imported it already.
"""

from __future__ import annotations

import sys
from typing import Any

from onward.core.encoding import Codec
from onward.core.losses import compare
from onward.core.plain import PLAIN
from onward.core.refusals import type_name
from onward.errors import InvalidInput


class Pydantic(Codec):
    """For a model at the top, and for unions of models."""

    __slots__ = ("_adapter",)

    def __init__(self, type_: Any) -> None:
        super().__init__(type_)
        self._adapter = sys.modules["pydantic"].TypeAdapter(type_)

    def trip(self, value: Any, what: str) -> tuple[bytes, Any]:
        data = PLAIN.encode(self._tree(value, what), what)
        try:
            decoded = self._adapter.validate_json(data)
        except ValueError as error:
            raise InvalidInput(f"{what}: the value does not fit {type_name(self.type)}: {error}") from None
        compare(value, decoded, data, what)
        return data, decoded

    def _tree(self, value: Any, what: str) -> Any:
        try:
            return self._adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings="error")
        except (ValueError, RecursionError) as error:
            if hasattr(type(value), "__pydantic_validator__"):
                raise InvalidInput(f"{what}: {error}") from None
            return value  # no such object, but perhaps the JSON of one

    def decode(self, data: bytes) -> Any:
        try:
            return self._adapter.validate_json(data)
        except ValueError as error:
            raise InvalidInput(f"the stored value does not fit {type_name(self.type)}: {error}") from None
