"""Where the tests keep payloads, and what no client of ours would do there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

import s3
from onward.payloads.objects import Objects


class Place(Protocol):
    """A store, and what lies in it, without the store's code."""

    url: str

    def overwrite(self, key: str, data: bytes) -> None:
        """Whatever lies there."""

    def remove(self, key: str) -> None: ...

    def vanish(self) -> None:
        """The whole folder or bucket is gone."""

    def keys(self) -> list[str]: ...


class Folder:
    def __init__(self, path: Path) -> None:
        self.path, self.url = path, path.as_uri()

    def overwrite(self, key: str, data: bytes) -> None:
        (self.path / key).write_bytes(data)

    def remove(self, key: str) -> None:
        (self.path / key).unlink()

    def vanish(self) -> None:
        shutil.rmtree(self.path)

    def keys(self) -> list[str]:
        return sorted(str(file.relative_to(self.path)) for file in self.path.rglob("*") if file.is_file())


class Bucket:
    def __init__(self, server: s3.Server, name: str, prefix: str = "") -> None:
        self.server, self.name = server, name
        self.url = f"s3://{name}/{prefix}".rstrip("/")
        self._prefix = f"{prefix}/" if prefix else ""

    @property
    def client(self) -> Any:
        return self.server.client

    def overwrite(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=self._prefix + key, Body=data)

    def remove(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=self._prefix + key)

    def vanish(self) -> None:
        for key in self.keys():
            self.remove(key)
        self.client.delete_bucket(Bucket=self.name)

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket=self.name, Prefix=self._prefix).get("Contents", [])
        return sorted(there["Key"].removeprefix(self._prefix) for there in found)


async def all_of(objects: Objects, prefix: str = "") -> list[str]:
    """The keys that a listing shows."""
    return sorted([stored.key async for stored in objects.list(prefix)])
