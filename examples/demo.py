"""A run that survives the death of its worker, in half a minute. `make demo` runs this.

It starts a worker (a process of its own, as in production) on a Postgres of its own, starts the onboarding workflow,
kills the worker in the middle of a step, starts another one, and shows that the run goes on where it was. Everything
lies in a temporary folder and is gone afterwards.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import monotonic

from onboarding import Signup, onboard_user

from onward import Client, embedded

APP = Path(__file__).with_name("onboarding.py")
ONWARD = [sys.executable, "-m", "onward.cli"]
PATIENCE = 45.0


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="onward-demo-") as folder:
        say("A Postgres of our own", "The embedded one: no server, no Docker, nothing to set up.")
        database = Path(folder) / ".onward"
        try:
            with embedded.acquire(database) as lease:
                await story(lease.url, Path(folder) / "outbox")
        finally:
            embedded.remove(database)


async def story(url: str, outbox: Path) -> None:
    os.environ |= {"ONWARD_URL": url, "ONBOARDING_OUTBOX": str(outbox)}
    outbox.touch()
    async with Client(url) as client:
        say("A worker starts, and Ada signs up", "$ onward worker examples/onboarding.py")
        async with worker() as first:
            run = await client.start(onboard_user, Signup("ada@example.com"), idempotency_key="ada")
            note(f"run {run.id}")
            await line_in(outbox, "created user")
            note("create-user has returned: its result is in the journal. Then a nap of one second …")
            await line_in(outbox, "sending the welcome mail")

            say("The power goes out in the middle of send-welcome", f"$ kill -9 {first.pid}")
            first.kill()
            await first.wait()
            note("It was talking to the mail server at that moment. Two seconds later we ask how the run is:")
            await silence(client)
            command("why", run.id)

        say("Another worker starts", "$ onward worker examples/onboarding.py")
        async with worker():
            await line_in(outbox, "sent the welcome mail")
            await state(client, run.id, "waiting")
            note("It found the run, and went on. What has really happened in the outside world:")
            quote(outbox.read_text())
            note("create-user ran once: what is journalled never runs again.")
            note("send-welcome had not returned, so it ran again: at least once, never silently not at all.")

            say("The run waits for Ada, but Bob is quicker", "")
            command("runs", "signal", run.id, "verify", '{"userId": 7}')
            command("why", run.id)

            say("Ada clicks the link", "")
            command("runs", "signal", run.id, "verify", '{"userId": 42}')
            note(f"and the result is: {await run.result(timeout=PATIENCE)}")

            say("The whole story, from the journal", f"$ onward runs show {run.id}")
            command("runs", "show", run.id, shown=False)
    note(f"That was it. Your turn: {onward_command()} dev examples/hello.py")


@contextlib.asynccontextmanager
async def worker() -> AsyncIterator[asyncio.subprocess.Process]:
    """`onward worker`, ready to work; told to stop at the end, if it still lives by then."""
    process = await asyncio.create_subprocess_exec(*ONWARD, "worker", str(APP), stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while b"serving" not in (line := await process.stderr.readline()):
                if not line:
                    raise SystemExit("the worker did not start")
        note(f"process {process.pid} serves onboard-user")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.communicate()


async def line_in(outbox: Path, text: str) -> None:
    async def written() -> bool:
        return text in outbox.read_text()

    await until(written, f"{text!r} in the outbox")


async def silence(client: Client) -> None:
    """A worker says every half second that it lives."""

    async def silent() -> bool:
        return all(worker.silent_for > 2 for worker in await client.workers())

    await until(silent, "the worker to fall silent")


async def state(client: Client, run_id: str, wanted: str) -> None:
    async def reached() -> bool:
        return (await client.get(run_id)).state == wanted

    await until(reached, f"the run to be {wanted}")


async def until(happened: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = monotonic() + PATIENCE
    while not await happened():
        if monotonic() > deadline:
            raise SystemExit(f"waited {PATIENCE:.0f} s in vain for {what}")
        await asyncio.sleep(0.02)


# ---- telling ----------------------------------------------------------------------------------------------

COLOURED = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
chapters = iter(range(1, 100))


def onward_command() -> str:
    path = Path(sys.executable).with_name("onward")
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else "onward"


def say(title: str, text: str) -> None:
    number = f"{next(chapters)}."
    print(f"\n\x1b[1m{number} {title}\x1b[0m" if COLOURED else f"\n{number} {title}")
    if text:
        note(text)


def note(text: str) -> None:
    print(textwrap.indent(text, "   "), flush=True)


def quote(text: str) -> None:
    print(textwrap.indent(text.rstrip(), "     | "), flush=True)


def command(*arguments: str, shown: bool = True) -> None:
    """One of Onward's own commands, as anybody would type it."""
    if shown:
        note("$ onward " + " ".join(f"'{a}'" if "{" in a else a for a in arguments))
        done = subprocess.run([*ONWARD, *arguments], check=True, text=True, encoding="utf-8", stdout=subprocess.PIPE)
        quote(done.stdout)
    else:
        subprocess.run([*ONWARD, *arguments], check=True)


if __name__ == "__main__":
    began = monotonic()
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
    note(f"({monotonic() - began:.0f} s, and no process is left behind)")
