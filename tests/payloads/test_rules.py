from __future__ import annotations

import sys
from typing import Any

import pytest

from onward.errors import InvalidInput, OnwardError
from onward.payloads import rules
from onward.payloads.layout import Layout
from onward.payloads.trouble import StoreUnavailable
from payloads.places import Bucket

LAYOUT = Layout("onward")
FOREIGN = {
    "ID": "theirs",
    "Filter": {"Prefix": "logs/"},
    "Status": "Enabled",
    "Expiration": {"Days": 365},
}


def there(bucket: Bucket) -> dict[str, dict[str, Any]]:
    found = bucket.client.get_bucket_lifecycle_configuration(Bucket=bucket.name)["Rules"]
    return {rule["ID"]: rule for rule in found}


def test_only_what_lies_under_tmp_is_ever_deleted_by_a_rule() -> None:
    deleting = [rule for rule in rules.rules("s3://bucket", LAYOUT) if "Expiration" in rule]
    assert [(rule["Filter"], rule["Expiration"]) for rule in deleting] == [
        ({"Prefix": "onward/tmp/"}, {"Days": 10}),
    ]


def test_uploads_that_were_never_completed_are_forgotten_everywhere() -> None:
    for rule in rules.rules("s3://bucket", LAYOUT):
        assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 10}
    assert {"Prefix": "onward/"} in [rule["Filter"] for rule in rules.rules("s3://bucket", LAYOUT)]


def test_the_rules_are_for_the_stores_own_prefix() -> None:
    prefixes = [rule["Filter"]["Prefix"] for rule in rules.rules("s3://bucket/team/a", Layout("v1"))]
    assert prefixes == ["team/a/v1/tmp/", "team/a/v1/"]


def test_two_roots_have_rules_of_their_own() -> None:
    roots = ["onward", "a/b", "a-b", "x" * 300, "x" * 299]
    names = [rule["ID"] for root in roots for rule in rules.rules("s3://bucket", Layout(root))]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 255


def test_applied_rules_are_in_force_and_versions_are_kept(own_bucket: Bucket) -> None:
    assert rules.apply(own_bucket.url, LAYOUT) == [
        "versioning is on",
        "rule onward-onward-tmp is set for onward/tmp/",
        "rule onward-onward-rest is set for onward/",
    ]
    assert own_bucket.client.get_bucket_versioning(Bucket=own_bucket.name)["Status"] == "Enabled"
    for rule in rules.rules(own_bucket.url, LAYOUT):
        assert there(own_bucket)[rule["ID"]] == rule


def test_applying_twice_changes_nothing(own_bucket: Bucket) -> None:
    rules.apply(own_bucket.url, LAYOUT)
    assert rules.apply(own_bucket.url, LAYOUT) == []


def test_the_rules_of_others_survive(own_bucket: Bucket) -> None:
    client, name = own_bucket.client, own_bucket.name
    stale = rules.rules(own_bucket.url, LAYOUT)[0] | {"Expiration": {"Days": 3}}
    client.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": [stale, FOREIGN]})
    rules.apply(own_bucket.url, Layout("another"))
    assert rules.apply(own_bucket.url, LAYOUT) == [
        "rule onward-onward-tmp is set for onward/tmp/",
        "rule onward-onward-rest is set for onward/",
    ]
    found = there(own_bucket)
    assert found["theirs"] == FOREIGN
    assert found["onward-onward-tmp"]["Expiration"] == {"Days": 10}
    assert len(found) == 5


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file:///data", "a folder has no rules"),
        ("gs://bucket", r"only those of s3://"),
        ("az://bucket", r"only those of s3://"),
    ],
)
def test_where_rules_cannot_be_set_it_says_what_to_do(url: str, says: str) -> None:
    for ask in (rules.rules, rules.apply):
        with pytest.raises(InvalidInput, match=says):
            ask(url, LAYOUT)


def test_without_boto3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(OnwardError, match=r"pip install 'onward\[s3\]'"):
        rules.apply("s3://bucket", LAYOUT)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("AWS_SECRET_ACCESS_KEY", "hunter2", r"refuses these credentials \(403"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "no connection"),
    ],
)
def test_a_bucket_that_cannot_be_reached_says_why(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(StoreUnavailable, match=says) as refused:
        rules.apply(bucket.url, LAYOUT)
    assert value not in str(refused.value)


@pytest.mark.usefixtures("reached")
def test_a_bucket_that_is_not_there_is_told() -> None:
    with pytest.raises(StoreUnavailable, match="there is no bucket at s3://no-such-bucket"):
        rules.apply("s3://no-such-bucket", LAYOUT)
