"""Finding the workflows of an app: a file, a module, or `module:object`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from onward.authoring.definition import Workflow


class AppError(click.ClickException):
    """The app cannot be served; the error that it raised itself, if any, is the cause."""


def load(app: str) -> list[Workflow[Any, Any]]:
    """The workflows of the app, by name and version."""
    where, colon, name = app.rpartition(":")
    if colon and where and not name:
        raise AppError(f"name an object after the colon, or leave it out for every workflow in {where}")
    module = _module(where if colon else app)
    found = _named(module, name, app) if colon else _every(vars(module).values())
    if not found:
        raise AppError(f"there is no workflow in {app}: make one with @workflow")
    return sorted(found, key=lambda w: (w.name, w.version))


def folder(app: str) -> Path:
    """Where the app's code lies, as far as can be told without running it."""
    where = app.rpartition(":")[0] or app
    return Path(where).absolute().parent if _is_file(where) else Path.cwd()


def _module(where: str) -> ModuleType:
    if not where:
        raise AppError("name a file (app.py), a module (my.app) or module:object")
    try:
        return _from_file(Path(where)) if _is_file(where) else _from_name(where)
    except AppError:
        raise
    except SyntaxError as error:
        place = f"{error.filename}, line {error.lineno}" if error.filename else where  # NUL bytes come without one
        raise AppError(f"{place}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise AppError(f"{where} raised {type(error).__name__}: {error}{_place(error)}") from error


def _is_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where or "\\" in where


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise AppError(f"there is no file {path}")
    name, root = _importable(path.resolve())
    _see(root)
    there = sys.modules.get(name)
    if there is not None:  # a file named like a module that is loaded already, `queue.py` for instance
        if Path(getattr(there, "__file__", None) or "").resolve() == path.resolve():
            return there
        name = f"onward_app_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise AppError(f"{path} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _importable(path: Path) -> tuple[str, Path]:
    """The module's dotted name and the folder to import it from: packages around it count."""
    parts, root = [path.stem], path.parent
    while (root / "__init__.py").is_file():
        parts, root = [root.name, *parts], root.parent
    for depth in range(1, len(parts)):
        _see(root)
        importlib.import_module(".".join(parts[:depth]))
    return ".".join(parts), root


def _from_name(name: str) -> ModuleType:
    _see(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        hint = f"; did you mean {name}.py?" if Path(f"{name}.py").is_file() else ""
        raise AppError(f"there is no module {name!r} in {Path.cwd()} or the environment{hint}") from None


def _see(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _named(module: ModuleType, name: str, app: str) -> list[Workflow[Any, Any]]:
    thing: Any = module
    for part in name.split("."):
        if not hasattr(thing, part):
            raise AppError(f"{module.__name__} has no {name!r}")
        thing = getattr(thing, part)
    if isinstance(thing, Workflow):
        return [thing]
    items = list(thing.values() if isinstance(thing, dict) else thing) if hasattr(thing, "__iter__") else [thing]
    for item in items:
        if not isinstance(item, Workflow):
            raise AppError(f"{app} is neither a workflow nor a list of them: {item!r}")
    return _every(items)


def _every(values: Iterable[Any]) -> list[Workflow[Any, Any]]:
    return list({id(value): value for value in values if isinstance(value, Workflow)}.values())


def _place(error: BaseException) -> str:
    """Where in the user's code."""
    frames = own_frames(error)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The traceback without the import machinery and without Onward."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = str(Path(__file__).parent.parent)
    return [f for f in frames if not f.filename.startswith(("<frozen", inside)) and "/importlib/" not in f.filename]
