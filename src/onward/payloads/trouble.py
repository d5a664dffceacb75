"""What a payload store refused, in one line that says what to do.

Whatever a store does is `StoreUnavailable`: what passes by itself (a time-out, a restart, throttling) and what an
operator can mend while the work waits (credentials, a bucket, a full disk). To fail a step for either would throw away
what it did. A message quotes the store's status and error code and nothing else: what servers and clients say otherwise
may hold addresses with passwords, key ids and signatures.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

from onward.errors import InvalidInput, OnwardError

NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist")

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_METADATA = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|/metadata/identity|NoCredentials")
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_KINDS = {"kind: Timeout": "no answer in time", "kind: Connect": "no connection"}


class StoreUnavailable(OnwardError):
    """The payload store cannot be used at the moment: it may pass by itself, or an operator can mend it."""


def from_os(problem: OSError, folder: Path) -> StoreUnavailable:
    """The error for what the operating system refused."""
    what = problem.strerror or type(problem).__name__
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable(f"the disk that holds the payloads in {folder} is full: free some space")
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreUnavailable(
            f"cannot use {problem.filename or folder} for payloads ({what}): make {folder} readable and writable for "
            "this user, or set ONWARD_PAYLOAD_URL to another place"
        )
    if problem.errno in (errno.ENOENT, errno.ENOTDIR):
        return StoreUnavailable(f"the folder {folder} for payloads is not there ({what}): mount it, or bring it back")
    return StoreUnavailable(
        f"cannot use the folder {folder} for payloads ({what}): mend it; until then it is tried again"
    )


def from_answer(scheme: str, url: str, said: str) -> StoreUnavailable:
    """The error for what a store, or the client that talks to it, said."""
    if NO_BUCKET.search(said):
        return StoreUnavailable(f"there is no bucket at {url}: create it, or set ONWARD_PAYLOAD_URL to one that exists")
    if _METADATA.search(said):
        return StoreUnavailable(
            f"no credentials for {url}: set {_CREDENTIALS[scheme]}, or give this machine a role that may use it"
        )
    if re.search(r"status code: 40[13]|UnauthenticatedError|PermissionDenied|AccessDenied", said):
        return StoreUnavailable(
            f"{url} refuses these credentials ({gist(said)}): check {_CREDENTIALS[scheme]}, and that they may read, "
            "write, list and delete there"
        )
    return StoreUnavailable(
        f"{url} cannot be used at the moment ({gist(said)}): it is tried again; if it lasts, check that the store runs "
        "and can be reached from here"
    )


def unusable(scheme: str, url: str, problem: str) -> InvalidInput:
    """The error for settings that a client for buckets does not take."""
    return InvalidInput(f"cannot keep payloads in {url} ({problem}): set {_CREDENTIALS[scheme]}")


def gist(said: str) -> str:
    """Status and code, or what else is safe to tell."""
    found = [match[1].strip() for match in (_STATUS.search(said), _CODE.search(said)) if match]
    return ", ".join(found) or next((words for kind, words in _KINDS.items() if kind in said), "no usable answer")
