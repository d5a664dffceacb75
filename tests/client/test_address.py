"""Where the database is."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.client.address import resolve
from onward.embedded import remove
from onward.errors import InvalidInput


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
