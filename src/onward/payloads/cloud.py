"""Payloads in a bucket: S3 and what speaks like it, Google Cloud Storage, Azure, through obstore.

**Once only.** A small object is one conditional PUT. obstore cannot make a multipart upload conditional (a `mode`
turns it into a single PUT), so a large one is uploaded in parts beside its key and then copied to it on the condition
that nothing is there; S3 does that as a multipart copy whose completion is conditional (`copy_if_not_exists`). What was
beside is deleted, and where that fails it is an orphan of its run, which a sweep finds. The copy of S3 drops the
content type; the pointer has it. A server that ignores the condition would overwrite: `probe` finds that out.

**Whether an answer was lost** need not be known: the caller reads what is there, and takes it if it is the same.

**Bounded.** obstore tries twice within seconds and each request has a time limit, since callers try again themselves,
with backoff. Large values go in parts, up and down, so that no request needs longer than a slow line allows.

**Blocking calls, in threads of our own.** obstore's coroutines would do, but for their end: a thread of their runtime
still lets go of Python objects when the result is already here, and a process that exits at that moment aborts (seen
with obstore 0.12.1 in 5 of 80 short processes, with the blocking calls in none;
https://github.com/PyO3/pyo3-async-runtimes/issues/40). A command that reads one payload is such a process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from onward.payloads import layout, trouble
from onward.payloads.address import Bucket
from onward.payloads.medium import Found, Stored
from onward.payloads.trouble import StoreUnavailable

CONNECT, QUICK, SLOW = timedelta(seconds=3), timedelta(seconds=6), timedelta(seconds=30)
"""Time limits: for a connection, for a request with up to `SMALL` bytes, for one with a part of a large object."""
SMALL, LARGE, PART = 1 << 20, 8 << 20, 5 << 20
_PARTS_AT_ONCE = 3
_LISTED_AT_ONCE = 1000

_Store = S3Store | GCSStore | AzureStore


class Cloud:
    """A bucket, or the part of it below a prefix."""

    threads = 64

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        try:
            self._quick, self._slow = _opened(bucket, QUICK), _opened(bucket, SLOW)
        except (BaseError, ValueError) as problem:
            raise trouble.unusable(bucket.scheme, bucket.url, type(problem).__name__) from None

    def put(self, key: str, data: bytes, content_type: str) -> bool:
        if len(data) > LARGE:
            return self._put_large(key, data, content_type)
        with self._trouble():
            try:
                attributes = {"Content-Type": content_type}
                obstore.put(self._for(len(data)), key, data, attributes=attributes, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def get(self, key: str, size: int) -> Found | None:
        if size > LARGE:
            return self._get_large(key, size)
        with self._trouble():
            try:
                answer = obstore.get(self._for(size), key)
            except FileNotFoundError as problem:
                self._expect_bucket(problem)
                return None
            there = answer.meta["size"]
            return Found(there, answer.bytes().to_bytes() if there == size else b"")

    def head(self, key: str) -> int | None:
        with self._trouble():
            try:
                return obstore.head(self._quick, key)["size"]
            except FileNotFoundError:
                pass
            try:  # a HEAD has no body that could say that the whole bucket is missing
                return obstore.get(self._quick, key).meta["size"]
            except FileNotFoundError as problem:
                self._expect_bucket(problem)
                return None

    def list(self, prefix: str) -> Iterator[Sequence[Stored]]:
        with self._trouble():
            for batch in obstore.list(self._quick, prefix.rstrip("/") or None, chunk_size=_LISTED_AT_ONCE):
                yield [Stored(found["path"], found["size"], found["last_modified"]) for found in batch]

    def delete(self, keys: Sequence[str]) -> None:
        with self._trouble():
            try:
                obstore.delete(self._quick, keys)
            except FileNotFoundError as problem:  # not of S3, which does not tell
                self._expect_bucket(problem)
                for key in keys:
                    with suppress(FileNotFoundError):
                        obstore.delete(self._quick, key)

    def sign(self, key: str, expires: timedelta) -> str:
        with self._trouble():
            return obstore.sign(self._quick, "GET", key, expires)

    def probe(self, key: str) -> None:
        if self.put(key, b"", "text/plain") and self.put(key, b"", "text/plain"):
            raise StoreUnavailable(
                f"{self._bucket.url} overwrites objects that were to be created only once (it ignores If-None-Match): "
                "payloads are not safe there; upgrade that store, or set ONWARD_PAYLOAD_URL to another"
            )
        self.get(key, 0)
        next(self.list(f"{key}/"), None)

    # ---- large objects -----------------------------------------------------------------------------------

    def _put_large(self, key: str, data: bytes, content_type: str) -> bool:
        if self.head(key) is not None:
            return False
        staged = layout.staging(key, uuid4())
        try:
            return self._upload(staged, data, content_type) and self._move(staged, key)
        finally:
            with suppress(StoreUnavailable):
                self.delete([staged])

    def _upload(self, staged: str, data: bytes, content_type: str) -> bool:
        with self._trouble():
            attributes = {"Content-Type": content_type}
            obstore.put(
                self._slow,
                staged,
                data,
                attributes=attributes,
                use_multipart=True,
                chunk_size=PART,
                max_concurrency=_PARTS_AT_ONCE,
            )
            return True

    def _move(self, staged: str, key: str) -> bool:
        with self._trouble():
            try:
                obstore.copy(self._slow, staged, key, overwrite=False)
            except AlreadyExistsError:
                return False
            return True

    def _get_large(self, key: str, size: int) -> Found | None:
        there = self.head(key)
        if there != size:
            return None if there is None else Found(there, b"")
        starts = range(0, size, PART)
        ends = [min(start + PART, size) for start in starts]
        with self._trouble():
            try:
                parts = obstore.get_ranges(self._slow, key, starts=starts, ends=ends, coalesce=0)
            except FileNotFoundError as problem:
                self._expect_bucket(problem)
                return None
            return Found(size, b"".join(parts))

    # ---- the bucket --------------------------------------------------------------------------------------

    def _for(self, size: int) -> _Store:
        return self._quick if size <= SMALL else self._slow

    def _expect_bucket(self, problem: FileNotFoundError) -> None:
        """An object is missing, and not the whole bucket."""
        if trouble.NO_BUCKET.search(str(problem)):
            raise self._told(problem)

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as problem:
            raise self._told(problem) from None  # its text is long, and may hold what is nobody's business

    def _told(self, problem: Exception) -> StoreUnavailable:
        return trouble.from_answer(self._bucket.scheme, self._bucket.url, f"{type(problem).__name__} {problem}")


def _opened(bucket: Bucket, limit: timedelta) -> _Store:
    options: dict[str, Any] = {
        "prefix": bucket.prefix or None,
        "client_options": {"allow_http": _says_http(), "connect_timeout": min(CONNECT, limit), "timeout": limit},
        "retry_config": {"max_retries": 1, "retry_timeout": timedelta(seconds=3)},
    }
    if bucket.scheme == "gs":
        return GCSStore(bucket.name, **options)
    if bucket.scheme == "az":
        return AzureStore(bucket.name, **options)
    if "AWS_COPY_IF_NOT_EXISTS" not in os.environ:
        options["copy_if_not_exists"] = "multipart"
    return S3Store(bucket.name, **options)


def _says_http() -> bool:
    """Does the operator's own endpoint begin with http://? Then that is meant."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    return any(os.environ.get(name, "").lower().startswith("http://") for name in names)
