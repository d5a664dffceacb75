"""Work that is handed to a program outside: where its input lies, and whom to answer.

The program gets this as JSON, on a command line, in a queue's message, in an environment variable. It reads the input
where the pointer says, and answers by a signal to the run: event `event`, with `{"token": …, "output": …}`, or
`{"token": …, "error": "why"}`. A large output it writes to the store below `outputKey`, and answers with a pointer,
`{"$payload": {"key", "sha256", "size", "contentType"}}`. A program in Python has `Client.take`, `answer` and `refuse`.
"""

from __future__ import annotations

import msgspec

from onward.core.pointers import Pointer
from onward.errors import InvalidInput


class Handoff(msgspec.Struct, frozen=True, rename="camel"):
    """What `ctx.step.batch` gives to its `submit`. `str()` is the JSON to pass on; `Handoff.parse` reads it.

    `token` tells this hand-off from all others; it is the same for every attempt to submit it.
    """

    run_id: str
    tenant: str
    event: str
    token: str
    input: Pointer
    output_key: str

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, text: str | bytes) -> Handoff:
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"this is no hand-off of ctx.step.batch: {error}") from None


class Answer(msgspec.Struct, frozen=True):
    """The payload of the signal that answers."""

    token: str
    output: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None
