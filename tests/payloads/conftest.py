"""The two media, each with hands that damage what lies there: see places.py."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

import s3 as servers
from payloads.places import Bucket, Folder, Place


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "with a space" / "100%")


@pytest.fixture(scope="session")
def shared_bucket(s3: servers.Server) -> str:
    return s3.bucket()


@pytest.fixture
def bucket(reached: servers.Server, shared_bucket: str) -> Bucket:
    """A prefix of the test's own: a bucket of its own takes the server a quarter of a second."""
    return Bucket(reached, shared_bucket, uuid4().hex)


@pytest.fixture
def own_bucket(reached: servers.Server) -> Bucket:
    """A whole bucket of the test's own."""
    return Bucket(reached, reached.bucket())


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each of the two."""
    place: Place = request.getfixturevalue(request.param)
    return place


@pytest.fixture(params=["folder", "own_bucket"])
def own_place(request: pytest.FixtureRequest) -> Place:
    """The same, for a test that takes it away."""
    place: Place = request.getfixturevalue(request.param)
    return place
