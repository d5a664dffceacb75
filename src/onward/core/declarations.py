"""What a function declares: the type that it returns, and the type of a body's input.

Asked at every call of a step, so the answer is kept; not for closures, which are made anew for each run, and would
be kept alive by their own types. A declaration that cannot be resolved counts as none. It must not raise, because
an import that only a type checker sees is ordinary code, and its function works just as well.
"""

from __future__ import annotations

import inspect
import types
import typing
from functools import partial
from types import NoneType
from typing import Any
from weakref import WeakKeyDictionary

_returned: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def return_type(fn: Any) -> Any:
    """What a function says that it returns; Any where it does not say, or what it says cannot be resolved."""
    while isinstance(fn, partial):
        fn = fn.func
    if isinstance(fn, type):
        return fn
    fn = getattr(fn, "__func__", fn)
    if not hasattr(fn, "__annotations__") and not isinstance(fn, types.BuiltinFunctionType):
        fn = getattr(type(fn).__call__, "__func__", type(fn).__call__)
    annotations = getattr(fn, "__annotations__", None) or {}
    if "return" not in annotations:
        return Any
    return _kept_return_type(fn, annotations["return"])


def _kept_return_type(fn: Any, annotation: Any) -> Any:
    if annotation is None or isinstance(annotation, type):
        return annotation or NoneType
    if getattr(fn, "__closure__", None) is not None:
        # Made anew for each run, mostly; and classes around it may point back to it, and keep it for ever.
        return _resolved(fn, annotation)
    try:
        found = _returned.get(fn)
        if found is None:
            found = _returned[fn] = _resolved(fn, annotation)
        return found
    except TypeError:  # it cannot be pointed to weakly
        return _resolved(fn, annotation)


def input_type(fn: Any) -> Any:
    """What a workflow's body says of its input, its second parameter."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return Any
    if len(parameters) < 2 or parameters[1].kind > inspect.Parameter.POSITIONAL_OR_KEYWORD:
        return Any
    annotation = parameters[1].annotation
    return Any if annotation is inspect.Parameter.empty else _resolved(fn, annotation)


def _resolved(fn: Any, annotation: Any) -> Any:
    # Alone: with typing.get_type_hints(fn) a parameter that cannot be resolved would take the rest with it.
    while isinstance(fn, partial):
        fn = fn.func
    fn = inspect.unwrap(getattr(fn, "__func__", fn))
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        hints = typing.get_type_hints(holder, getattr(fn, "__globals__", {}), _enclosing(fn), include_extras=True)
        return hints["it"]
    except Exception:
        return Any


def _enclosing(fn: Any) -> dict[str, Any]:
    """The variables that a function has from the functions around it: classes made in a test, for example."""
    if getattr(fn, "__closure__", None) is None:
        return {}
    found = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found
