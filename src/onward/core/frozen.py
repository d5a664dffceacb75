"""Plain JSON that cannot be changed: what a workflow's body gets as its input.

A replay hands the body its input as it was stored. A body that changed its input would read its own change
the first time and not on the replay, and take another way. So the change is refused, where it is made. A
frozen dict is still a dict, and a frozen list a list, in all that only reads: no user code has to know.
Copies are ordinary and may be changed.

`MappingProxyType` and tuples would not do: neither passes `isinstance(x, dict)`, `json.dumps` or `==` with
a list.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NoReturn


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "the input of a workflow must not be changed (OW104): it would not be there on a replay. "
        "Make a copy: `dict(input)` or `list(input)`, or `copy.deepcopy(input)` to change what lies deeper"
    )


class FrozenDict(dict[str, Any]):
    """A dict that refuses to change."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    update = pop = popitem = setdefault = clear = _refuse

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: deepcopy(value, memo) for key, value in self.items()}

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses to change."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [deepcopy(value, memo) for value in self]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (list(self),)


_FROZEN: dict[type, type] = {dict: FrozenDict, list: FrozenList}


def freeze(value: Any) -> Any:
    """The same plain JSON, frozen to the bottom; anything but a dict or list is returned as it is."""
    # Not recursive: a value may be nested a thousand deep, as deep as Python's own stack.
    if type(value) not in _FROZEN:
        return value
    top = _FROZEN[type(value)](value)
    boxes = [top]
    while boxes:
        boxes.extend(_freeze_inside(boxes.pop()))
    return top


def _freeze_inside(box: FrozenDict | FrozenList) -> list[Any]:
    """Freezes what lies directly in a frozen box, and returns those boxes."""
    inner = []
    place: Any = dict.__setitem__ if isinstance(box, dict) else list.__setitem__
    for key, value in box.items() if isinstance(box, dict) else enumerate(box):
        frozen = _FROZEN.get(type(value))
        if frozen is not None:
            inner.append(frozen(value))
            place(box, key, inner[-1])
    return inner
