"""What holds for a bucket only, at a real server that speaks S3: trouble on the way, parts, signed addresses."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen
from uuid import UUID

import pytest

import s3 as servers
from onward.core.pointers import BINARY, JSON, Pointer
from onward.errors import PayloadMissing
from onward.payloads import cloud, trouble
from onward.payloads.layout import Layout, Owner
from onward.payloads.objects import Objects, StoreUnavailable
from payloads.places import Bucket, Folder, all_of

LAYOUT = Layout("onward")
OWNER = Owner("default", "onboard", UUID("01890a5d-ac96-774b-bcce-b302099a8057"))
KEY = LAYOUT.step(OWNER, "create user 100%", "json")
LARGE = 9 << 20


def everything(objects: Objects) -> list[Callable[[], Awaitable[object]]]:
    """All that a store can be asked."""
    return [
        lambda: objects.create(KEY, b"[1]", JSON),
        lambda: objects.create(KEY, bytes(LARGE), JSON),
        lambda: objects.read(Pointer(KEY, "0" * 64, 3, JSON)),
        lambda: objects.read(Pointer(KEY, "0" * 64, LARGE, JSON)),
        lambda: objects.head(KEY),
        lambda: all_of(objects, LAYOUT.swept[0]),
        lambda: objects.delete([KEY]),
        lambda: objects.check(LAYOUT.probe),
    ]


# ---- what people read ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, LARGE])
async def test_a_signed_address_is_read_by_anybody_for_a_while(bucket: Bucket, size: int) -> None:
    objects, data = Objects.open(bucket.url), os.urandom(size)
    await objects.create(KEY, data, BINARY)
    url = await objects.url(KEY, timedelta(minutes=1))
    assert url is not None
    with await asyncio.to_thread(urlopen, url) as answer:
        assert answer.read() == data
    with pytest.raises(HTTPError, match="403"):
        await asyncio.to_thread(urlopen, url.partition("?")[0])


async def test_a_folder_has_no_signed_addresses(folder: Folder) -> None:
    assert await Objects.open(folder.url).url(KEY, timedelta(minutes=1)) is None


async def test_an_object_says_what_it_holds(bucket: Bucket) -> None:
    await Objects.open(bucket.url).create(KEY, b"[1]", JSON)
    name = f"{bucket.url.rpartition('/')[2]}/{KEY}"
    assert bucket.client.head_object(Bucket=bucket.name, Key=name)["ContentType"] == JSON


# ---- prefixes --------------------------------------------------------------------------------------------


async def test_a_store_below_a_prefix_sees_nothing_else(own_bucket: Bucket) -> None:
    whole, part = Objects.open(own_bucket.url), Objects.open(f"{own_bucket.url}/team/a")
    pointer = await part.create(KEY, b"[1]", JSON)
    large = await part.create(f"{KEY}.large", bytes(LARGE), JSON)
    await whole.create(KEY, b"[2]", JSON)
    assert own_bucket.keys() == sorted([KEY, f"team/a/{KEY}", f"team/a/{KEY}.large"])
    assert await all_of(part) == [KEY, f"{KEY}.large"]
    assert await part.read(pointer) == b"[1]"
    assert await part.read(large) == bytes(LARGE)
    await part.delete([KEY, f"{KEY}.large"])
    assert own_bucket.keys() == [KEY]


# ---- large objects ---------------------------------------------------------------------------------------


async def test_a_large_object_goes_in_parts_and_appears_whole(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    objects, data, seen = Objects.open(bucket.url), os.urandom(LARGE), list[list[str]]()
    copy = cloud.obstore.copy

    def watched(store: object, source: str, target: str, *, overwrite: bool) -> None:
        seen.append(bucket.keys())
        copy(store, source, target, overwrite=overwrite)

    monkeypatch.setattr(cloud.obstore, "copy", watched)
    await objects.create(KEY, data, BINARY)
    ((staged,),) = seen
    assert LAYOUT.owner(staged) == OWNER
    assert staged != KEY
    assert bucket.keys() == [KEY]
    etag = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=bucket.url.rpartition("/")[2])["Contents"][0][
        "ETag"
    ]
    assert "-" in etag  # so S3 marks what was put together from parts
    assert not bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads")


async def test_what_is_left_beside_a_large_object_is_an_orphan_of_its_run(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects.open(bucket.url)

    def broken(*_: object, **__: object) -> None:
        raise cloud.BaseError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(cloud.obstore, "copy", broken)
        patched.setattr(cloud.obstore, "delete", broken)
        with pytest.raises(StoreUnavailable):
            await objects.create(KEY, bytes(LARGE), BINARY)
    assert await objects.head(KEY) is None
    (left,) = await all_of(objects)
    assert LAYOUT.owner(left) == OWNER
    assert (await objects.create(KEY, bytes(LARGE), BINARY)).key == KEY


# ---- trouble ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
async def test_refused_credentials_are_told_without_telling_them(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "hunter2-wrong")
    objects = Objects.open(bucket.url)
    for attempt in everything(objects):
        with pytest.raises(
            StoreUnavailable, match=r"refuses these credentials \(403.*AWS_SECRET_ACCESS_KEY"
        ) as refused:
            await attempt()
        told = "".join(traceback.format_exception(refused.value)) + repr(objects)
        assert "hunter2" not in told
        assert servers.KEY not in told
        assert servers.SECRET not in told
        assert "<Error>" not in told  # the server's own words, which at Amazon hold the key's id
        assert "\n" not in str(refused.value)


async def test_a_server_that_does_not_run_is_told_at_once(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for attempt in everything(Objects.open(bucket.url)):
        with pytest.raises(
            StoreUnavailable, match=r"cannot be used at the moment \(no connection\): it is tried again"
        ):
            await attempt()


async def test_a_server_that_hangs_is_not_waited_for_long(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("CONNECT", "QUICK", "SLOW"):
        monkeypatch.setattr(cloud, limit, timedelta(seconds=0.3))
    objects = Objects.open(bucket.url)
    with bucket.server.frozen():
        told = await asyncio.gather(*(attempt() for attempt in everything(objects)), return_exceptions=True)
    assert {type(error) for error in told} == {StoreUnavailable}
    assert all("(no answer in time)" in str(error) for error in told)
    pointer = await Objects.open(bucket.url).create(f"{KEY}.again", b"[1]", JSON)
    assert await objects.read(pointer) == b"[1]"


class Gate:
    """A way to the server that closes once this many bytes have gone through."""

    def __init__(self, endpoint: str, limit: int) -> None:
        self.limit, self.url = limit, ""
        self._address = urlsplit(endpoint)
        self._writers = set[asyncio.StreamWriter]()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(self._address.hostname, self._address.port)
        self._writers |= {writer, to_there}
        with suppress(OSError):
            await asyncio.gather(self._carry(reader, to_there), self._carry(there, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self.limit > 0 and (data := await reader.read(65536)):
            self.limit -= len(data)
            writer.write(data)
            await writer.drain()
        for connection in self._writers:
            connection.transport.abort()


@asynccontextmanager
async def gate(endpoint: str, limit: int) -> AsyncIterator[str]:
    way = Gate(endpoint, limit)
    server = await asyncio.start_server(way.connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.mark.parametrize("limit", [1, 100_000, 4 << 20, 16 << 20])
async def test_a_server_that_stops_in_the_middle_leaves_no_half_object(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    data = os.urandom(2 * LARGE)
    async with gate(bucket.server.endpoint, limit) as way:
        monkeypatch.setenv("AWS_ENDPOINT_URL", way)
        with pytest.raises(StoreUnavailable, match="it is tried again"):
            await Objects.open(bucket.url).create(KEY, data, BINARY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.server.endpoint)
    objects = Objects.open(bucket.url)
    assert await objects.head(KEY) is None
    pointer = await objects.create(KEY, data, BINARY)
    assert pointer.key == KEY
    async with gate(bucket.server.endpoint, limit) as way:
        monkeypatch.setenv("AWS_ENDPOINT_URL", way)
        with pytest.raises(StoreUnavailable, match="it is tried again"):
            await Objects.open(bucket.url).read(pointer)
    assert await objects.read(pointer) == data


class _Overwriting(BaseHTTPRequestHandler):
    """A server that takes every PUT, whatever its conditions."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("ETag", '"x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def overwriting() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Overwriting) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_a_server_that_overwrites_does_not_pass_the_check(
    reached: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with overwriting() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        objects = Objects.open("s3://bucket")
        with pytest.raises(StoreUnavailable, match=r"ignores If-None-Match.*payloads are not safe"):
            await objects.check(LAYOUT.probe)


async def test_deleted_objects_come_back_in_a_bucket_with_versions(own_bucket: Bucket) -> None:
    client, name = own_bucket.client, own_bucket.name
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    objects = Objects.open(own_bucket.url)
    pointer = await objects.create(KEY, b"[1]", JSON)
    await objects.delete([KEY])
    with pytest.raises(PayloadMissing):
        await objects.read(pointer)
    (marker,) = client.list_object_versions(Bucket=name)["DeleteMarkers"]
    client.delete_object(Bucket=name, Key=KEY, VersionId=marker["VersionId"])
    assert await objects.read(pointer) == b"[1]"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "status code: 503 Slow Down: <Code>SlowDown</Code>",
            r"s3://b cannot .*\(503 Slow Down, SlowDown\): it is tried",
        ),
        ("PUT http://169.254.169.254/latest/api/token", r"no credentials for s3://b: set AWS_ACCESS_KEY_ID"),
        ("status code: 404 Not Found <Code>NoSuchBucket</Code>", r"there is no bucket at s3://b: create it"),
        ("status code: 401 Unauthorized", r"s3://b refuses these credentials \(401 Unauthorized\)"),
        ("hunter2 http://user:hunter2@host", r"s3://b cannot be used at the moment \(no usable answer\)"),
    ],
)
def test_trouble_with_a_bucket_says_what_to_do(said: str, told: str) -> None:
    error = trouble.from_answer("s3", "s3://b", said)
    assert "hunter2" not in str(error)
    with pytest.raises(StoreUnavailable, match=told):
        raise error
