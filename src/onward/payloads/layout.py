"""Every key and every prefix of the payload store, and nothing else. Who needs a key asks here.

    {root}/workflow-payloads/{tenant}/{workflow}/{run_id}/{step}.{ext}        as long as the run
    {root}/executions/{tenant}/{workflow}/{run_id}/input.json, output.json    as long as the run
    {root}/executions/{tenant}/{workflow}/{run_id}/signals/{uuid}.json        as long as the run
    {root}/tmp/oversized/{tenant}/{uuid}.json                                 ten days
    {root}/tmp/batch/{tenant}/{workflow}/{run_id}/{uuid}.json                 ten days
    {root}/tmp/invalid/{tenant}/{uuid}.json                                   ten days
    {root}/artifacts/{tenant}/{type}/{workflow}/{run_id}/{name}.{ext}         for ever

Two things that differ never share a key, and no name reaches out of its prefix
(`test_two_different_values_never_share_a_key`, `test_no_name_climbs_out_of_its_prefix`). Tenants and workflows are
plain by their own rules. Steps, types and names of artifacts are free text: letters, digits, `_`, `-` and `.` stay,
each other byte of their UTF-8 becomes `%XX`. The `~` is no letter of that alphabet, so it can mark what is no name:

    {first 100 bytes}~{16 hex digits of the SHA-256}.{ext}    a name over 150 encoded bytes
    {name}~{12 hex digits of the content's SHA-256}.{ext}     another object under a key that is taken (`beside`)
    {name}~{uuid}.part                                        an object that is being written (`staging`)

What follows the `~` tells the three apart. A step inside a step is journalled under a path; the whole path
is one segment of the key.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple
from uuid import UUID

from onward.core import names
from onward.core.pointers import BINARY, JSON, TEXT
from onward.errors import InvalidInput, InvalidName

Extension = Literal["json", "txt", "bin"]

EXTENSIONS: dict[str, Extension] = {JSON: "json", TEXT: "txt", BINARY: "bin"}
"""The extension of each content type."""

_LONGEST_SEGMENT, _KEPT_OF_IT = 150, 100
_LONGEST_ROOT = 300  # S3 takes keys of 1,024 bytes; ours have up to 500 without their root

_ROOT = re.compile(r"(?:(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.-]+(?:/|\Z))+")
_BESIDE = re.compile(r"~[0-9a-f]{12}(?=\.[a-z]+\Z)")
_OWNED = re.compile(
    r"(workflow-payloads|executions|tmp/batch)/([^/]+)/([^/]+)/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/"
    r"(signals/)?[^/]+"
)


class Owner(NamedTuple):
    """The run that an object belongs to."""

    tenant: str
    workflow: str
    run_id: UUID


@dataclass(frozen=True, slots=True)
class Layout:
    """Keys under one root. `InvalidInput` where the root is no plain path."""

    root: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", plain(self.root, "a root prefix (ONWARD_PAYLOAD_ROOT_PREFIX)"))

    # ---- keys --------------------------------------------------------------------------------------------

    def step(self, owner: Owner, path: str, extension: Extension) -> str:
        """The value of the step at this path (`core.names.join`)."""
        return f"{self._of_run('workflow-payloads', owner)}{_segment(path)}.{extension}"

    def input(self, owner: Owner) -> str:
        """The input of a run."""
        return f"{self._of_run('executions', owner)}input.json"

    def output(self, owner: Owner) -> str:
        """The output of a run."""
        return f"{self._of_run('executions', owner)}output.json"

    def signal(self, owner: Owner, unique: UUID) -> str:
        """The payload of a signal to a run."""
        return f"{self._of_run('executions', owner)}signals/{unique}.json"

    def oversized(self, tenant: str, unique: UUID) -> str:
        """The body of a queue's message."""
        return f"{self.tmp}oversized/{names.tenant_name(tenant)}/{unique}.json"

    def batch(self, owner: Owner, unique: UUID) -> str:
        """What a step hands to an outside program, or gets from it."""
        return f"{self._of_run('tmp/batch', owner)}{unique}.json"

    def invalid(self, tenant: str, unique: UUID) -> str:
        """An input that did not fit its workflow."""
        return f"{self.tmp}invalid/{names.tenant_name(tenant)}/{unique}.json"

    def artifact(self, owner: Owner, kind: str, name: str, extension: Extension) -> str:
        """What a workflow keeps for ever."""
        folder = _segment(_text(kind, "type"))
        if folder in (".", ".."):  # the one segment without an extension: these would lead elsewhere
            folder = folder.replace(".", "%2E")
        run = _run(owner).removeprefix(f"{owner.tenant}/")
        return f"{self.root}/artifacts/{owner.tenant}/{folder}/{run}{_segment(_text(name, 'name'))}.{extension}"

    # ---- prefixes ----------------------------------------------------------------------------------------

    def run(self, owner: Owner) -> tuple[str, str]:
        """The prefixes that hold all of a run (but for what expires under `tmp`)."""
        return self._of_run("workflow-payloads", owner), self._of_run("executions", owner)

    @property
    def swept(self) -> tuple[str, str]:
        """The prefixes whose objects belong to runs: what a sweep lists against the journal."""
        return f"{self.root}/workflow-payloads/", f"{self.root}/executions/"

    @property
    def tmp(self) -> str:
        """The prefix that a rule of the bucket empties. A folder has no such rules: there a sweep has to, by age."""
        return f"{self.root}/tmp/"  # noqa: S108  a prefix, no folder of this machine

    @property
    def probe(self) -> str:
        """What `Objects.check` writes."""
        return f"{self.tmp}probe.txt"

    # ---- and back ----------------------------------------------------------------------------------------

    def owner(self, key: str) -> Owner | None:
        """The run that this key belongs to: None for artifacts, for what no run owns, and for all that is not ours."""
        found = _OWNED.fullmatch(key.removeprefix(f"{self.root}/")) if key.startswith(f"{self.root}/") else None
        if found is None or (found[5] and found[1] != "executions"):
            return None
        owner = Owner(found[2], found[3], UUID(found[4]))
        try:
            _run(owner)
        except InvalidName:
            return None
        return owner

    def _of_run(self, kind: str, owner: Owner) -> str:
        return f"{self.root}/{kind}/{_run(owner)}"


def beside(key: str, sha256: str) -> str:
    """Where an object goes when its key is taken by another one."""
    stem, dot, extension = _parts(key)
    return f"{stem}~{sha256[:12]}{dot}{extension}"


def first(key: str) -> str:
    """The key that `beside` began with; any other key is its own."""
    return _BESIDE.sub("", key)


def staging(key: str, unique: UUID) -> str:
    """Where an object is put together before it appears under its key."""
    return f"{_parts(key)[0]}~{unique}.part"


def plain(path: str, what: str) -> str:
    """The path without slashes around it, if it has nothing but plain segments."""
    path = path.strip("/")
    if len(path) > _LONGEST_ROOT or not _ROOT.fullmatch(path):
        raise InvalidInput(
            f"{what} must be letters, digits, `_`, `-` and `.`, in parts joined by single slashes, none of them `.` or "
            f"`..`, at most {_LONGEST_ROOT} characters; got {path[:80]!r}"
        )
    return path


def is_key(key: str) -> bool:
    """Can this be an object's key? One that cannot leads out of the store, or nowhere."""
    return "\0" not in key and not any(part in ("", ".", "..") for part in key.split("/"))


def _run(owner: Owner) -> str:
    return f"{names.tenant_name(owner.tenant)}/{names.workflow_name(owner.workflow)}/{owner.run_id}/"


def _parts(key: str) -> tuple[str, str, str]:
    folder, slash, name = key.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    return f"{folder}{slash}{stem}", dot, extension


def _segment(text: str) -> str:
    data = text.encode()
    encoded = "".join(map(_ENCODED.__getitem__, data))
    if len(encoded) <= _LONGEST_SEGMENT:
        return encoded
    return f"{encoded[:_KEPT_OF_IT]}~{hashlib.sha256(data).hexdigest()[:16]}"


_ENCODED = [chr(byte) if re.fullmatch(rb"[A-Za-z0-9_.-]", bytes([byte])) else f"%{byte:02X}" for byte in range(256)]


def _text(text: str, what: str) -> str:
    try:
        if text.encode():
            return text
    except UnicodeEncodeError:
        pass
    raise InvalidInput(f"the {what} of an artifact must be text, and not empty; got {text[:80]!r}")
