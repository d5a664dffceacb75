"""What an editor must refuse: each line marked `error` is one. Checked by test_types.py, never executed."""

from onward import Client, Context, workflow


async def create(email: str) -> int:
    return len(email)


def render(user: int, times: int) -> str:
    return str(user) * times


@workflow
async def flow(ctx: Context, email: str) -> str:
    await ctx.step.run("wrong type", create, 42)  # error
    await ctx.step.run("too few", render, 1)  # error
    await ctx.step.run("too many", create, "x", "y")  # error
    number = await ctx.step.run("create", create, email)
    number.upper()  # error
    ctx.step.run("no name given")  # error
    return "done"


async def main(client: Client) -> None:
    await client.start(flow, 42)  # error
    run = await client.start(flow, "x")
    (await run.result()).missing()  # error
