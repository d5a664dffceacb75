"""Law: what the documents show is so: every snippet runs, every command exists, every link leads somewhere."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

import onward
from docs import documents
from docs.documents import Block
from onward import errors
from onward.cli.commands import onward as program
from onward.client import why

GUIDE = documents.ROOT / "docs" / "guide.md"
MAKEFILE = documents.ROOT / "Makefile"
EXAMPLES = documents.ROOT / "examples"


def name_of(document: Path) -> str:
    return str(document.relative_to(documents.ROOT))


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """One module for all blocks of a document: what was imported and defined above is there below."""
    module = ModuleType("snippets")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.mark.parametrize("document", documents.EXECUTED, ids=name_of)
async def test_every_python_block_runs(
    document: Path, url: str, namespace: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONWARD_URL", url)
    found = documents.blocks(document, "python")
    assert found
    for block in found:
        await execute(block, namespace)


async def execute(block: Block, namespace: ModuleType) -> None:
    code = block.compiled()
    if block.is_fragment:
        return
    try:
        ending = eval(code, vars(namespace))
        if inspect.iscoroutine(ending):
            await ending
    except Exception as error:
        error.add_note(f"in the block at {name_of(block.document)}:{block.line}")
        raise


def test_the_workflow_of_the_readme_is_an_example() -> None:
    source = (EXAMPLES / "onboarding.py").read_text("utf-8")
    first = documents.blocks(documents.ROOT / "README.md", "python")[0]
    for paragraph in re.split(r"\n{2,}", first.text.strip()):
        assert paragraph in source


@pytest.mark.parametrize("document", documents.ALL, ids=name_of)
def test_every_command_exists_with_those_options(document: Path) -> None:
    for where, words in documents.commands(document, "onward"):
        try:
            parse(program, "onward", words)
        except click.UsageError as error:
            pytest.fail(f"{where}: {error.format_message()}")


def parse(command: click.Command, name: str, words: list[str]) -> None:
    """Reads the arguments as the program would, and executes nothing."""
    if words[:1] in (["--help"], ["--version"]):
        return
    if isinstance(command, click.Group):
        below = command.commands.get(words[0] if words else "")
        if below is None:
            raise click.UsageError(f"{name} has no command {' '.join(words[:1])!r}")
        parse(below, f"{name} {words[0]}", words[1:])
    else:
        command.make_context(name, list(words)).close()


@pytest.mark.parametrize("document", documents.ALL, ids=name_of)
def test_every_make_target_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE.read_text("utf-8"), re.MULTILINE))
    for where, words in documents.commands(document, "make"):
        assert words[0] in targets, where


@pytest.mark.parametrize("document", documents.ALL, ids=name_of)
def test_every_link_leads_to_a_file(document: Path) -> None:
    assert [target for target, file in documents.links(document) if not file.exists()] == []


def test_the_guide_names_everything_that_is_public() -> None:
    text = GUIDE.read_text("utf-8")
    assert [name for name in onward.__all__ if name not in text] == []


def test_the_guide_names_every_error() -> None:
    text = GUIDE.read_text("utf-8")
    named = [
        name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__
    ]
    assert [name for name in named if f"`{name}`" not in text] == []


def test_the_guide_says_what_to_do_in_every_state() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", GUIDE.read_text("utf-8"), re.MULTILINE)
    assert set(why._EXPLAIN) <= set(rows)
