from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core import names
from onward.errors import InvalidInput, InvalidName
from onward.payloads import layout
from onward.payloads.layout import Extension, Layout, Owner

LAYOUT = Layout("onward")
RUN = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
OWNER = Owner("default", "onboard-user", RUN)
OTHER = UUID("01890a5d-ac96-774b-bcce-b302099a8058")
SHA = "0123456789abcdef" * 4

tenants = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", fullmatch=True) | st.sampled_from(["a", "a.b", "a..", "A"])
workflows = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,42}", fullmatch=True) | st.sampled_from(["a", "a-b", "signals"])
runs = st.uuids() | st.sampled_from([RUN, OTHER])
owners = st.builds(Owner, tenants, workflows, runs)
texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=200)
awkward = st.sampled_from(
    [
        ".",
        "..",
        "../..",
        "/",
        "a/b",
        "a%2Fb",
        "a~b",
        "a",
        "a.json",
        "input",
        "input~0123456789ab",
        "%",
        "%25",
        "ä",
        "a#2",
    ]
)
steps = st.lists(texts | awkward, min_size=1, max_size=3).map(names.SEPARATOR.join)
extensions: st.SearchStrategy[Extension] = st.sampled_from(["json", "txt", "bin"])

anything = st.one_of(
    st.tuples(st.just("step"), owners, steps, extensions),
    st.tuples(st.just("input"), owners),
    st.tuples(st.just("output"), owners),
    st.tuples(st.just("signal"), owners, runs),
    st.tuples(st.just("batch"), owners, runs),
    st.tuples(st.just("oversized"), tenants, runs),
    st.tuples(st.just("invalid"), tenants, runs),
    st.tuples(st.just("artifact"), owners, texts | awkward, texts | awkward, extensions),
)
"""What has a key: the method of `Layout`, and its arguments."""


def key_of(what: tuple[Any, ...], root: str = "onward") -> str:
    method, *arguments = what
    key: str = getattr(Layout(root), method)(*arguments)
    return key


def test_the_keys_are_those_of_the_contract() -> None:
    of_run = f"default/onboard-user/{RUN}"
    assert LAYOUT.step(OWNER, "create-user", "json") == f"onward/workflow-payloads/{of_run}/create-user.json"
    assert LAYOUT.input(OWNER) == f"onward/executions/{of_run}/input.json"
    assert LAYOUT.output(OWNER) == f"onward/executions/{of_run}/output.json"
    assert LAYOUT.signal(OWNER, OTHER) == f"onward/executions/{of_run}/signals/{OTHER}.json"
    assert LAYOUT.oversized("default", OTHER) == f"onward/tmp/oversized/default/{OTHER}.json"
    assert LAYOUT.batch(OWNER, OTHER) == f"onward/tmp/batch/{of_run}/{OTHER}.json"
    assert LAYOUT.invalid("default", OTHER) == f"onward/tmp/invalid/default/{OTHER}.json"
    artifact = LAYOUT.artifact(OWNER, "report", "summary", "txt")
    assert artifact == f"onward/artifacts/default/report/onboard-user/{RUN}/summary.txt"


def test_the_prefixes_are_those_of_the_contract() -> None:
    of_run = f"default/onboard-user/{RUN}/"
    assert LAYOUT.run(OWNER) == (f"onward/workflow-payloads/{of_run}", f"onward/executions/{of_run}")
    assert LAYOUT.swept == ("onward/workflow-payloads/", "onward/executions/")
    assert LAYOUT.tmp == "onward/tmp/"
    assert LAYOUT.probe.startswith(LAYOUT.tmp)


@pytest.mark.parametrize(
    ("path", "segment"),
    [
        ("charge_card-2.x", "charge_card-2.x"),
        ("charge card", "charge%20card"),
        ("a#2", "a%232"),
        ("50%~", "50%25%7E"),
        ("a/../b", "a%2F..%2Fb"),
        ("ä", "%C3%A4"),
        (names.join("outer", "inner"), "outer%1Finner"),
    ],
)
def test_what_is_not_plain_is_written_as_percent_and_two_digits(path: str, segment: str) -> None:
    assert LAYOUT.step(OWNER, path, "bin").rpartition("/")[2] == f"{segment}.bin"


def test_a_long_step_keeps_its_beginning_and_is_told_apart_by_its_hash() -> None:
    exactly, over, umlauts = "x" * 150, "x" * 151, "ä" * 26
    assert LAYOUT.step(OWNER, exactly, "json").endswith(f"/{exactly}.json")
    # printf x%.0s {1..151} | sha256sum, and the same for the umlauts
    assert LAYOUT.step(OWNER, over, "json").endswith(f"/{'x' * 100}~{X_151}.json")
    assert LAYOUT.step(OWNER, umlauts, "json").endswith(f"/{('%C3%A4' * 17)[:100]}~{UMLAUTS_26}.json")


X_151, UMLAUTS_26 = "8eb827e6964db1e2", "556842e95bd4a0d3"


@given(anything, anything)
def test_two_different_values_never_share_a_key(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert (key_of(one) == key_of(other)) is (one == other)


@given(owners, steps, steps, extensions, extensions)
def test_two_steps_of_a_run_never_share_a_key(
    owner: Owner, path: str, other: str, extension: Extension, other_extension: Extension
) -> None:
    same = (path, extension) == (other, other_extension)
    assert (LAYOUT.step(owner, path, extension) == LAYOUT.step(owner, other, other_extension)) is same


@given(anything, st.sampled_from(["onward", "a/b", "v1.0"]))
def test_no_name_climbs_out_of_its_prefix(what: tuple[Any, ...], root: str) -> None:
    key = key_of(what, root)
    prefix, depth = {
        "step": (f"{root}/workflow-payloads", 4),
        "input": (f"{root}/executions", 4),
        "output": (f"{root}/executions", 4),
        "signal": (f"{root}/executions", 5),
        "batch": (f"{root}/tmp/batch", 4),
        "oversized": (f"{root}/tmp/oversized", 2),
        "invalid": (f"{root}/tmp/invalid", 2),
        "artifact": (f"{root}/artifacts", 5),
    }[what[0]]
    assert key.startswith(f"{prefix}/")
    parts = key.removeprefix(f"{prefix}/").split("/")
    assert len(parts) == depth
    assert not {"", ".", ".."} & set(parts)
    assert re.fullmatch(r"[A-Za-z0-9_.~%/-]+", key)
    assert max(map(len, parts)) <= 200
    assert layout.is_key(key)


@given(anything)
def test_a_key_tells_whose_it_is(what: tuple[Any, ...]) -> None:
    key = key_of(what)
    owned = what[0] in ("step", "input", "output", "signal", "batch")
    for name in (key, layout.beside(key, SHA), layout.staging(key, OTHER)):
        assert LAYOUT.owner(name) == (what[1] if owned else None)
    if owned and what[0] != "batch":
        assert key.startswith(LAYOUT.run(what[1]))
        assert key.startswith(LAYOUT.swept)
    else:
        assert not key.startswith(LAYOUT.swept)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "onward",
        f"other/executions/t/w/{RUN}/input.json",
        f"onward/executions/t/w/{RUN}/",
        f"onward/executions/t/w/{RUN}",
        f"onward/executions/t/w/{str(RUN).upper()}/input.json",
        f"onward/executions/t/w/{RUN}/more/input.json",
        f"onward/executions/t/w/{RUN}/signals/more/x.json",
        f"onward/workflow-payloads/t/w/{RUN}/signals/x.json",
        f"onward/executions/-/w/{RUN}/input.json",
        f"onward/executions/t/W/{RUN}/input.json",
        f"onward/executions/t/w/{RUN}/input.json\n/x",
        f"onward/elsewhere/t/w/{RUN}/input.json",
    ],
)
def test_a_key_that_is_not_ours_belongs_to_nobody(key: str) -> None:
    assert LAYOUT.owner(key) is None


@given(anything, anything)
def test_what_goes_beside_a_key_meets_no_other_key(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    aside = layout.beside(key_of(one), SHA)
    assert aside != key_of(other)
    assert aside != layout.staging(key_of(other), OTHER)
    assert (aside == layout.beside(key_of(other), SHA)) is (one == other)


def test_what_goes_beside_is_called_after_its_content() -> None:
    assert layout.beside("v1.0/a.b/step.json", SHA) == "v1.0/a.b/step~0123456789ab.json"
    unique = uuid4()
    assert layout.staging("v1.0/a.b/step.json", unique) == f"v1.0/a.b/step~{unique}.part"


@pytest.mark.parametrize(("given", "root"), [("onward", "onward"), ("/a/b/", "a/b"), ("v1.0", "v1.0"), ("..a", "..a")])
def test_slashes_around_a_root_are_harmless(given: str, root: str) -> None:
    assert Layout(given).root == root


@pytest.mark.parametrize(
    "root", ["", "/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a b", "a%b", "a~", "ä", "a\n", "x" * 301]
)
def test_a_root_that_is_no_plain_path_is_refused(root: str) -> None:
    with pytest.raises(InvalidInput, match="ONWARD_PAYLOAD_ROOT_PREFIX"):
        Layout(root)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: LAYOUT.input(Owner("..", "w", RUN)),
        lambda: LAYOUT.input(Owner("a/b", "w", RUN)),
        lambda: LAYOUT.step(Owner("t", "../w", RUN), "a", "json"),
        lambda: LAYOUT.oversized("../t", RUN),
        lambda: LAYOUT.invalid("", RUN),
        lambda: LAYOUT.artifact(Owner("..", "w", RUN), "a", "b", "json"),
    ],
)
def test_a_tenant_or_workflow_that_breaks_its_rules_gets_no_key(ask: Callable[[], str]) -> None:
    with pytest.raises(InvalidName):
        ask()


@pytest.mark.parametrize(
    ("kind", "segment"), [(".", "%2E"), ("..", "%2E%2E"), ("...", "..."), ("v1.0", "v1.0"), ("a/b", "a%2Fb")]
)
def test_a_type_of_artifacts_is_one_folder_below_its_tenant(kind: str, segment: str) -> None:
    key = LAYOUT.artifact(OWNER, kind, "..", "json")
    assert key == f"onward/artifacts/default/{segment}/onboard-user/{RUN}/...json"


@pytest.mark.parametrize(("kind", "name"), [("", "a"), ("a", ""), ("\ud800", "a"), ("a", "\udfff")])
def test_an_artifact_needs_a_type_and_a_name(kind: str, name: str) -> None:
    with pytest.raises(InvalidInput, match="of an artifact"):
        LAYOUT.artifact(OWNER, kind, name, "json")


@pytest.mark.parametrize("key", ["", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a/./b", "a\0"])
def test_what_leads_out_of_the_store_is_no_key(key: str) -> None:
    assert not layout.is_key(key)
