"""Where the database is."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.client.address import resolve
from onward.embedded import remove
from onward.errors import InvalidInput
from onward.store.database import connect, shown


@pytest.mark.parametrize("given", [None, ""])
async def test_an_empty_address_counts_as_none(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".onward"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONWARD_URL", "")
    address = await resolve(given)
    try:
        assert address.lease is not None
        assert address.url == address.lease.url
    finally:
        await address.release()
        remove(folder)


async def test_an_address_of_something_else_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidInput, match="mysql://u@h/d") as caught:
        await resolve("mysql://u:secret@h/d")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://u:secret@h/d", "postgresql://u@h/d"),
        ("postgresql://u:p://secret@h/d", "postgresql://u@h/d"),
        ("u:secret@h", "u@h"),
        ("postgresql://h/d?user=u&password=secret&port=1", "postgresql://h/d?user=u&password=***&port=1"),
        ("postgresql://u@h/d?sslpassword=secret@x", "postgresql://u@h/d?sslpassword=***"),
        ("host=h password='my secret' user=u", "host=h password=*** user=u"),
        ("postgresql://h/d", "postgresql://h/d"),
    ],
)
def test_an_address_is_shown_without_its_passwords(url: str, told: str) -> None:
    assert shown(url) == told


@pytest.mark.parametrize("url", ["postgresql://u:sec#ret@h/d", "postgresql://h:x/d", "postgresql://h/d?sslmode=no"])
async def test_an_address_that_nothing_can_read_is_wrong_use(url: str) -> None:
    with pytest.raises(InvalidInput, match="this is no database URL: ") as caught:
        await connect(url)
    assert "'sec'" not in str(caught.value)
