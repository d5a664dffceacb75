from __future__ import annotations

from pathlib import Path

import pytest

from onward.errors import InvalidInput
from onward.payloads.address import Bucket, parse
from onward.payloads.objects import Objects


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("file:///var/lib/onward", Path("/var/lib/onward")),
        ("file:///var/lib/onward/", Path("/var/lib/onward")),
        ("file://localhost/a", Path("/a")),
        ("file:///a%20b/100%25/%3F", Path("/a b/100%/?")),
        ("file:///a b", Path("/a b")),
        ("file:///a/../b", Path("/b")),
        ("s3://bucket", Bucket("s3", "bucket", "")),
        ("s3://bucket/", Bucket("s3", "bucket", "")),
        ("s3://bucket/pre/fix/", Bucket("s3", "bucket", "pre/fix")),
        ("gs://my_bucket.example", Bucket("gs", "my_bucket.example", "")),
        ("az://container/x", Bucket("az", "container", "x")),
    ],
)
def test_addresses_that_the_contract_allows(url: str, place: Path | Bucket) -> None:
    assert parse(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/var/lib/onward",
        "bucket",
        "http://example.com/x",
        "memory:///",
        "ftp://x/y",
        "file://relative/path",
        "file:///",
        "file:relative",
        "file:///a?b",
        "file:///a#b",
        "file:///a%00b",
        "s3://",
        "s3:///key",
        "s3://b c",
        "s3://bucket/../other",
        "s3://bucket/a//b",
        "s3://bucket/ä",
        "s3://[bucket",
    ],
)
def test_any_other_address_is_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"file:///folder, s3://bucket, gs://bucket or az://container"):
        Objects.open(url)


@pytest.mark.parametrize(
    "url", ["s3://key:hunter2@bucket", "s3://hunter2@bucket", "az://c?sig=hunter2", "http://u:hunter2@h/", "hunter2"]
)
def test_a_refusal_does_not_repeat_a_secret(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Objects.open(url)
    assert "hunter2" not in f"{refused.value!r}{refused.value.__context__!r}"


def test_a_store_that_lacks_its_settings_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidInput, match=r"az://container.*AZURE_STORAGE_ACCOUNT_NAME"):
        Objects.open("az://container")
