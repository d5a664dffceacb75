"""Types that tests declare for their values: one of each kind that a user may have."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, NamedTuple, NewType, NotRequired, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pydantic.dataclasses


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


@dataclass
class Item:
    name: str
    price: float | None = None


@dataclass
class Order:
    id: UUID
    at: datetime
    items: list[Item] = field(default_factory=list)
    total: Decimal = Decimal(0)


class Point(NamedTuple):
    x: int
    y: int = 0


class Struct(msgspec.Struct):
    a: int
    blob: bytes = b""


class Typed(TypedDict):
    a: int
    b: NotRequired[float]


class Model(pydantic.BaseModel):
    n: int
    at: datetime | None = None
    tags: set[int] = set()
    anything: Any = None
    share: float | None = None


class Other(pydantic.BaseModel):
    other: str


@dataclass
class Mixed:
    model: Model
    models: dict[str, Model]


@pydantic.dataclasses.dataclass
class Checked:
    n: Annotated[int, pydantic.Field(gt=0)]
    tags: frozenset[str] = frozenset()


class Opaque:
    pass


UserId = NewType("UserId", int)
T = TypeVar("T")
