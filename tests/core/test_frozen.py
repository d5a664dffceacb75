from __future__ import annotations

import copy
import json
import pickle
from timeit import repeat
from typing import Any

import msgspec
import pytest
from hypothesis import given

from core.strategies import levels, nested, plain_json
from onward.core.frozen import freeze


def sample() -> Any:
    return freeze({"a": 1, "list": [3, 1, 2], "inner": {"x": [{"y": 1}]}})


def add(box: Any) -> None:
    box += [1]


def multiply(box: Any) -> None:
    box *= 2


def unite(box: Any) -> None:
    box |= {"b": 1}


def delete(box: Any, key: Any) -> None:
    del box[key]


DICT_CHANGES = {
    "set": lambda box: box.__setitem__("a", 2),
    "delete": lambda box: delete(box, "a"),
    "update": lambda box: box.update(b=1),
    "pop": lambda box: box.pop("a"),
    "pop with default": lambda box: box.pop("none", None),
    "popitem": lambda box: box.popitem(),
    "setdefault": lambda box: box.setdefault("a", 1),
    "clear": lambda box: box.clear(),
    "|=": unite,
}
LIST_CHANGES = {
    "set": lambda box: box.__setitem__(0, 9),
    "set slice": lambda box: box.__setitem__(slice(0, 2), []),
    "delete": lambda box: delete(box, 0),
    "delete slice": lambda box: delete(box, slice(0, 2)),
    "append": lambda box: box.append(1),
    "extend": lambda box: box.extend([1]),
    "insert": lambda box: box.insert(0, 1),
    "remove": lambda box: box.remove(1),
    "pop": lambda box: box.pop(),
    "clear": lambda box: box.clear(),
    "sort": lambda box: box.sort(key=str),
    "reverse": lambda box: box.reverse(),
    "+=": add,
    "*=": multiply,
}


@pytest.mark.parametrize("change", DICT_CHANGES.values(), ids=DICT_CHANGES)
def test_a_frozen_dict_refuses_every_change_and_stays_as_it_was(change: Any) -> None:
    value = sample()
    for box in (value, value["inner"], value["inner"]["x"][0]):
        with pytest.raises(TypeError, match=r"must not be changed \(OW104\).*Make a copy: `dict\(input\)`"):
            change(box)
    assert value == sample()


@pytest.mark.parametrize("change", LIST_CHANGES.values(), ids=LIST_CHANGES)
def test_a_frozen_list_refuses_every_change_and_stays_as_it_was(change: Any) -> None:
    value = sample()
    for box in (value["list"], value["inner"]["x"], freeze([1, 2])):
        with pytest.raises(TypeError, match="OW104"):
            change(box)
    assert value == sample()


def test_every_method_that_changes_a_dict_or_list_is_covered() -> None:
    for kind, inert in ((dict, "copy fromkeys get items keys values"), (list, "copy count index")):
        frozen = type(freeze(kind()))
        for name in set(vars(kind)) - set(inert.split()):
            if not name.startswith("__") or name in (
                "__setitem__",
                "__delitem__",
                "__ior__",
                "__iadd__",
                "__imul__",
            ):
                assert getattr(frozen, name).__name__ == "_refuse", name


@given(plain_json)
def test_a_frozen_value_reads_like_the_original(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert value == frozen
    assert isinstance(frozen, type(value))
    assert copy.deepcopy(frozen) == value


def test_what_only_reads_works() -> None:
    value = sample()
    assert json.loads(json.dumps(value, indent=1)) == value
    assert json.dumps(value) == json.dumps(dict(value))
    assert msgspec.json.encode(value) == msgspec.json.encode(copy.deepcopy(value))
    assert repr(value) == repr(copy.deepcopy(value))
    assert dict(value) == {**value} == value | {} == value
    assert {} | value == value
    assert list(value) == ["a", "list", "inner"]
    assert value["list"] + [4] == [3, 1, 2, 4]
    assert value["list"] * 2 == [3, 1, 2, 3, 1, 2]
    assert value["list"][:2] == [3, 1]
    assert sorted(value["list"]) == [1, 2, 3]
    match value:
        case {"list": [first, *_]}:
            assert first == 3
        case _:
            pytest.fail("a frozen dict must match patterns")


@pytest.mark.parametrize(
    "made",
    [
        copy.copy(sample()),
        copy.deepcopy(sample()),
        dict(sample()),
        sample() | {},
        sample().copy(),
        pickle.loads(pickle.dumps(sample())),
    ],
)
def test_a_copy_is_ordinary_and_may_be_changed(made: Any) -> None:
    assert type(made) is dict
    made["a"] = 2


@pytest.mark.parametrize("deep", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_deep_copy_is_ordinary_to_the_bottom(deep: Any) -> None:
    made = deep(sample())
    assert type(made["list"]) is list
    made["inner"]["x"][0]["y"] = 2
    made["list"].append(1)


def test_copies_of_lists_are_ordinary() -> None:
    frozen = freeze([1, [2]])
    for made in (copy.copy(frozen), list(frozen), frozen[:], frozen.copy(), [*frozen]):
        assert type(made) is list


def test_the_original_is_not_touched() -> None:
    value = {"a": [{}]}
    freeze(value)
    value["a"][0]["b"] = 1  # type: ignore[index]
    assert type(value["a"]) is list


def test_a_thousand_levels_freeze() -> None:
    assert levels(freeze(nested(1000))) == 1000


def test_what_is_frozen_or_no_json_box_is_returned_as_it_is() -> None:
    value = sample()
    assert freeze(value) is value
    for other in (None, 1, "a", (1,), object()):
        assert freeze(other) is other


def test_freezing_is_cheap() -> None:
    value = {"user": {"id": 1, "tags": ["a", "b"]}, "ok": True}
    best = min(repeat(lambda: freeze(value), number=2000, repeat=10)) / 2000
    assert best < 20e-6  # measured 2.5 us; the room is for a busy machine
