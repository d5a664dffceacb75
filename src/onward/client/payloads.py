"""The one way out of the database and back: what is large goes to the payload store, and a pointer to it is journalled.

The journal is authoritative. An object is written before its pointer is, and never changed, so a crash between the
two leaves an object that nobody points to (`onward payload sweep`), and nothing else. Where the store is, the database
says: what was recorded at its first use counts for every client and worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from onward.core import pointers
from onward.core.encoding import Codec
from onward.core.pointers import Pointer
from onward.core.ref import Ref
from onward.errors import InvalidInput, OnwardError, PayloadStoreNotConfigured, PayloadTooLarge
from onward.payloads import contents
from onward.payloads.layout import EXTENSIONS, Extension, Layout, Owner
from onward.payloads.objects import Objects
from onward.payloads.settings import INLINE, Settings
from onward.payloads.trouble import StoreUnavailable
from onward.store.database import TRANSIENT, Database

T = TypeVar("T")

Key = Callable[[Layout, Extension], str]
"""Where a value goes."""

Told = Callable[[str | None], None]
"""Is told what keeps the store from answering, and None when it does again."""

PATIENCE = 10.0
"""Seconds for which a store that does not answer is asked again, where nobody else says how long."""

EMBEDDED = "embedded"
"""What is recorded for the folder beside an embedded database."""


class Place(NamedTuple):
    """The store of a database. `recorded`: it has been used, and is the database's for good."""

    objects: Objects
    layout: Layout
    recorded: bool


class Payloads:
    """Values on their way into the journal and back, for one client or worker."""

    def __init__(self, database: Database, settings: Settings | None = None) -> None:
        self.settings = Settings.from_environment() if settings is None else settings
        self._database = database
        self._place: Place | None = None
        self._opening = asyncio.Lock()

    # ---- where the store is ------------------------------------------------------------------------------

    async def place(self, *, writing: bool = False) -> Place | None:
        """None where no store is configured. What the environment names is recorded at once, the folder beside an
        embedded database when it is first written to."""
        async with self._opening:
            if self._place is None or (writing and not self._place.recorded):
                url, root, recorded = await self._ask(self.settings.url or (EMBEDDED if writing else None))
                if url is not None:
                    self._place = Place(Objects.open(url), Layout(root), recorded is not None)
            return self._place

    async def required(self, what: str, *, writing: bool = False) -> Place:
        place = await self.place(writing=writing)
        if place is None:
            raise PayloadStoreNotConfigured(
                f"{what} needs the payload store, and none is configured: set ONWARD_PAYLOAD_URL "
                "(file:///folder, s3://bucket, gs://bucket or az://container)"
            )
        return place

    async def check_recorded(self) -> None:
        """Refuses an environment that names another store than this database's, which would part its payloads."""
        url, root, recorded = await self._ask(self.settings.url)
        mine, own_root = self.settings.url, self.settings.root
        if mine is not None and recorded is not None and _plain(mine) not in (_plain(recorded), _plain(url or "")):
            where = f"the folder beside it, {url}" if recorded == EMBEDDED else recorded
            raise InvalidInput(
                f"ONWARD_PAYLOAD_URL is {mine}, but the payloads of this database lie in {where}: unset it, or set it "
                "to that"
            )
        if own_root is not None and recorded is not None and own_root.strip("/") != root.strip("/"):
            raise InvalidInput(
                f"ONWARD_PAYLOAD_ROOT_PREFIX is {own_root}, but the payloads of this database lie below {root}: unset "
                "it, or set it to that"
            )

    async def _ask(self, url: str | None) -> tuple[str | None, str, str | None]:
        row = await self._database.fetchrow("select * from onward.payload_store($1, $2)", url, self.settings.root)
        assert row is not None
        return row["url"], row["root"], row["recorded"]

    # ---- out ---------------------------------------------------------------------------------------------

    def is_small(self, data: bytes) -> bool:
        return len(data) <= self.settings.threshold or data == b"null"

    def keeps(self, data: bytes) -> bool:
        """Does an input or output with this encoding stay in the database, and nowhere else?"""
        return self.is_small(data) and not self.settings.everything

    async def journalled(
        self, data: bytes, what: str, key: Key, *, value: object = None, ref: bool = False, told: Told | None = None
    ) -> bytes:
        """What is journalled for a value with this encoding: itself, or a pointer once the object is there. `value`: as
        text or bytes it is written as such. `ref`: a pointer whatever its size."""
        binary = isinstance(value, bytes | bytearray | memoryview)
        if self.is_small(data) and not (binary or ref):
            return pointers.literal(data)
        if await patiently(lambda: self.place(writing=True), told) is None:
            return await self._inline(data, what, ref)
        content, content_type = contents.content(data, value)
        if len(content) > self.settings.most:
            raise PayloadTooLarge(
                f"{what} is {len(content):,} bytes long, the limit is {self.settings.most:,}: "
                "raise ONWARD_PAYLOAD_MAX, or keep it elsewhere and pass on where it is"
            )
        pointer = await self.create(lambda layout: key(layout, EXTENSIONS[content_type]), content, content_type, told)
        return pointers.encode(pointer, held=ref)

    async def _inline(self, data: bytes, what: str, ref: bool) -> bytes:
        """Where no store is configured."""
        if len(data) > INLINE:
            raise PayloadTooLarge(
                f"{what} is {len(data):,} bytes long, the limit is {INLINE:,} where no payload store is configured: "
                "set ONWARD_PAYLOAD_URL (file:///folder, s3://bucket, gs://bucket or az://container)"
            )
        if ref:
            await self.required(what)
        return pointers.literal(data)

    async def recorded(
        self, data: bytes, what: str, key: Callable[[Layout], str], *, ref: bool = False, told: Told | None = None
    ) -> bytes:
        """The same for an input or an output, which is an object of JSON; with PERSIST=all a small one is written too,
        and its row stays the record."""
        also = self.settings.everything and self.is_small(data)
        if also and await patiently(lambda: self.place(writing=True), told) is not None:
            await self.create(key, data, pointers.JSON, told)
        return await self.journalled(data, what, lambda layout, _: key(layout), ref=ref, told=told)

    async def invalid(self, tenant: str, id: UUID, data: bytes) -> str | None:  # noqa: A002
        """Keeps an input that did not fit, for ten days; its key, or None where that could not be done."""
        try:
            if await self.place(writing=True) is None:
                return None
            return (await self.create(lambda layout: layout.invalid(tenant, id), data, pointers.JSON)).key
        except OnwardError:  # it is told that the input is wrong in any case
            return None

    async def discard(self, owner: Owner) -> None:
        """Deletes the objects of a run that was never started. What is left behind, a sweep finds."""
        place = await self.place()
        if place is not None:
            with contextlib.suppress(OnwardError):
                await place.objects.delete([place.layout.input(owner)])

    async def create(
        self, key: Callable[[Layout], str], content: bytes, content_type: str, told: Told | None = None
    ) -> Pointer:
        """Writes an object; there must be a store."""

        async def write() -> Pointer:
            place = await self.required("a payload", writing=True)
            return await place.objects.create(key(place.layout), content, content_type)

        return await patiently(write, told)

    # ---- and back ----------------------------------------------------------------------------------------

    async def whole(self, data: bytes, told: Told | None = None) -> bytes:
        """The JSON of a value that was journalled like this: fetched and checked where it lies outside."""
        return await self.load(pointers.decode(data), told) if pointers.is_pointer(data) else data

    async def load(self, pointer: Pointer, told: Told | None = None) -> bytes:
        """The JSON of the value that an object holds."""
        return await patiently(lambda: self.load_once(pointer), told)

    async def load_once(self, pointer: Pointer) -> bytes:
        """The same, without asking again where the store does not answer."""
        return contents.journalled(await self.read(pointer), pointer.content_type, pointer.key)

    async def read(self, pointer: Pointer) -> bytes:
        """The object as it lies there, checked."""
        place = await self.required(f"the payload {pointer.key}")
        return await place.objects.read(pointer)

    def ref(self, data: bytes, codec: Codec) -> Ref[Any]:
        """Of a value that was journalled as a pointer."""
        return Ref(pointers.decode(data), codec, self.load)


async def patiently(work: Callable[[], Awaitable[T]], told: Told | None) -> T:
    """Asks a store that does not answer again, ever more seldom: for ever where somebody is told, else for a while."""
    loop, pause, troubled = asyncio.get_running_loop(), 0.1, False
    deadline = loop.time() + PATIENCE
    try:
        while True:
            try:
                return await work()
            except (StoreUnavailable, *TRANSIENT) as error:
                given_up = loop.time() + pause > deadline or not isinstance(error, StoreUnavailable)
                if told is None and given_up:
                    raise
                if told is not None:
                    told(str(error) or type(error).__name__)
                    troubled = True
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 5.0)
    finally:
        if troubled and told is not None:
            told(None)


def _plain(url: str) -> str:
    return url.rstrip("/")
