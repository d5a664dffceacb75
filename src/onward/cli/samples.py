"""What to type to start a run of a workflow: an input that fits its type, for people to change."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any, get_origin, get_type_hints

from onward.authoring.definition import Workflow
from onward.core.codec import PLAIN, input_type

_SAMPLES: dict[Any, Any] = {str: "text", int: 1, float: 1.5, bool: True, dict: {}, list: [], tuple: [], set: []}


def arguments(workflow: Workflow[Any, Any]) -> str:
    """`NAME --input JSON`, for a shell."""
    if not workflow.takes_input:
        return workflow.name
    data = PLAIN.encode(_sample(input_type(workflow.body)), "a sample").decode()
    return f"{workflow.name} --input {shlex.quote(data)}"


def _sample(kind: Any) -> Any:
    if not dataclasses.is_dataclass(kind):
        return _SAMPLES.get(get_origin(kind) or kind)
    hints = get_type_hints(kind)
    return {f.name: _sample(hints[f.name]) for f in dataclasses.fields(kind) if _must_be_given(f)}


def _must_be_given(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
