"""What a bucket is to do by itself: empty `tmp/`, forget uploads that were never completed, keep versions for a while.

| rule | objects | what |
| --- | --- | --- |
| `onward-{root}-tmp` | `{root}/tmp/` | deleted after 10 days, their old versions after 10 more |
| `onward-{root}-rest` | `{root}/` | nothing that is there; only what was deleted is forgotten after 30 days |

Inputs, outputs, steps' values and artifacts are never deleted by a rule: they go with their run, or stay. Versioning
is on, so that an object that was deleted by mistake can be brought back; without the second rule such versions, and
with them what retention has removed, would stay for ever. Both rules end uploads in parts that were never completed.

The bucket may have rules of other owners: only the two with these names are ours, and the rest is written back as read.
S3 has no call to change one rule, so who changes the rules at the same moment may be overwritten; run it again then.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onward.errors import InvalidInput, OnwardError
from onward.payloads import address, trouble
from onward.payloads.address import Bucket
from onward.payloads.layout import Layout

TMP_DAYS, VERSION_DAYS = 10, 30

VERSIONING = {"Status": "Enabled"}
"""What the bucket's versioning should be."""


def rules(url: str, layout: Layout) -> list[dict[str, Any]]:
    """The rules for the bucket at this address, as S3's life cycle configuration has them."""
    bucket = _bucket(url)
    root = bucket.key(layout.root)
    name = root if len(root) < 200 else hashlib.sha256(root.encode()).hexdigest()  # S3 takes names of 255 characters
    parts = {"DaysAfterInitiation": TMP_DAYS}
    return [
        {
            "ID": f"onward-{name}-tmp",
            "Filter": {"Prefix": bucket.key(layout.tmp)},
            "Status": "Enabled",
            "Expiration": {"Days": TMP_DAYS},
            "NoncurrentVersionExpiration": {"NoncurrentDays": TMP_DAYS},
            "AbortIncompleteMultipartUpload": parts,
        },
        {
            "ID": f"onward-{name}-rest",
            "Filter": {"Prefix": f"{root}/"},
            "Status": "Enabled",
            "NoncurrentVersionExpiration": {"NoncurrentDays": VERSION_DAYS},
            "AbortIncompleteMultipartUpload": parts,
        },
    ]


def apply(url: str, layout: Layout) -> list[str]:
    """Sets versioning and the rules where they are not set yet; blocks. -> what was changed, in words."""
    bucket, wanted = _bucket(url), rules(url, layout)
    with _trouble(bucket):
        client = _client()
        return [*_version(client, bucket.name), *_merge(client, bucket.name, wanted)]


def _version(client: Any, bucket: str) -> Iterator[str]:
    if client.get_bucket_versioning(Bucket=bucket).get("Status") != VERSIONING["Status"]:
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=VERSIONING)
        yield "versioning is on"


def _merge(client: Any, bucket: str, wanted: list[dict[str, Any]]) -> Iterator[str]:
    configuration = _configuration(client, bucket)
    there = {rule.get("ID"): rule for rule in configuration["Rules"]}
    missing = [rule for rule in wanted if not _has(there.get(rule["ID"]), rule)]
    if not missing:
        return
    ours = {rule["ID"] for rule in wanted}
    others = [rule for rule in configuration["Rules"] if rule.get("ID") not in ours]
    size = configuration.get("TransitionDefaultMinimumObjectSize")  # of others' transitions
    client.put_bucket_lifecycle_configuration(
        Bucket=bucket,
        LifecycleConfiguration={"Rules": others + wanted},
        **({"TransitionDefaultMinimumObjectSize": size} if size else {}),
    )
    yield from (f"rule {rule['ID']} is set for {rule['Filter']['Prefix']}" for rule in missing)


def _configuration(client: Any, bucket: str) -> dict[str, Any]:
    try:
        configuration: dict[str, Any] = client.get_bucket_lifecycle_configuration(Bucket=bucket)
    except client.exceptions.ClientError as problem:
        if problem.response["Error"]["Code"] != "NoSuchLifecycleConfiguration":
            raise
        return {"Rules": []}
    return configuration


def _has(there: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    """Does the bucket's rule say this? It may hold more: servers fill in what was left out."""
    return there is not None and all(there.get(name) == value for name, value in wanted.items())


def _bucket(url: str) -> Bucket:
    bucket = address.parse(url)
    if isinstance(bucket, Path):
        raise InvalidInput(f"a folder has no rules ({bucket}): `onward payload sweep` empties its tmp/")
    if bucket.scheme != "s3":
        raise InvalidInput(
            f"the rules of {bucket.url} cannot be set from here, only those of s3://: in that cloud's own tools, let "
            f"objects under tmp/ expire after {TMP_DAYS} days, and turn versioning on"
        )
    return bucket


def _client() -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise OnwardError("the rules of a bucket are set with boto3: pip install 'onward[s3]'") from None
    config = Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 2})
    session = boto3.session.Session()  # the shared one would remember credentials that were refused
    return session.client("s3", config=config, endpoint_url=os.environ.get("AWS_ENDPOINT"))  # which obstore knows too


@contextmanager
def _trouble(bucket: Bucket) -> Iterator[None]:
    try:
        yield
    except Exception as problem:
        if not type(problem).__module__.startswith("botocore"):
            raise
        raise trouble.from_answer(bucket.scheme, bucket.url, _said(problem)) from None


def _said(problem: Exception) -> str:
    """In the words that `trouble` looks for."""
    response = getattr(problem, "response", {})
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
    code = response.get("Error", {}).get("Code", "")
    kind = "kind: Connect" if "Connect" in type(problem).__name__ else ""
    return f"{type(problem).__name__} status code: {status} <Code>{code}</Code> {kind}"
