"""A new user is created, welcomed, and asked to verify the address; who does not is nudged.

    onward dev examples/onboarding.py
    onward start onboard-user --input '{"email": "ada@example.com"}'
    onward runs signal RUN_ID verify '{"userId": 42}'

Or everything in one process: python examples/onboarding.py

Kill the worker wherever you like. Steps that have returned are in the journal and never run again; the one that was
cut off runs again, so a step that reaches the outside world should bear a second call (`current_step()` has a key
for that). To let you count, every step writes a line to the file that ONBOARDING_OUTBOX names.
"""

import asyncio
import os
import time
from dataclasses import dataclass

from onward import Backoff, Client, Context, Retry, Worker, current_step, workflow


@dataclass
class Signup:
    email: str


@dataclass
class User:
    id: int
    email: str


@workflow(name="onboard-user", version=1, retention="30d")
async def onboard_user(ctx: Context, signup: Signup) -> str:
    user = await ctx.step.run("create-user", create_user, signup.email)
    await ctx.step.sleep("welcome-delay", "1s")
    await ctx.step.run(
        "send-welcome",
        send_welcome,
        user,
        retry=Retry(attempts=5, backoff=Backoff.exponential("300ms", max="5s", jitter=0.2)),
        timeout="30s",
    )
    verified = await ctx.step.wait_for_event("verify", match={"userId": user.id}, timeout="7d")
    if verified is None:  # seven days have passed
        await ctx.step.run("nudge", nudge, user)
        return f"{user.email} was nudged"
    badge = await ctx.step.run("award-badge", award_badge, user)
    return f"{user.email} is on board {badge}"


def create_user(email: str) -> User:
    outbox(f"created user 42 for {email}")
    return User(42, email)


def send_welcome(user: User) -> str:
    """A slow mail server."""
    outbox(f"sending the welcome mail to {user.email}")
    time.sleep(1.2)
    outbox(f"sent the welcome mail to {user.email}")
    return "250 OK"


async def award_badge(user: User) -> str:
    """The badge printer jams at first."""
    if current_step().attempt == 1:
        raise ConnectionError("the badge printer is jammed")
    outbox(f"printed a badge for user {user.id}")
    return "🎖"


def nudge(user: User) -> None:
    outbox(f"nudged {user.email}")


def outbox(line: str) -> None:
    path = os.environ.get("ONBOARDING_OUTBOX")
    if path is None:
        print(f"   {line}")
        return
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


async def main() -> None:
    async with Worker(onboard_user), Client() as client:
        run = await client.start(onboard_user, Signup("ada@example.com"))
        await client.signal(run.id, "verify", {"userId": 42})  # early: it is kept until the run waits for it
        print(await run.result(timeout=60))


if __name__ == "__main__":
    asyncio.run(main())
