"""The smallest useful program.

onward dev examples/hello.py                              # a database and a worker
onward start hello --input '"World"' --wait               # in another terminal
"""

from onward import Context, workflow


def greeting(name: str) -> str:
    return f"Hello, {name}!"


@workflow
async def hello(ctx: Context, name: str) -> str:
    text = await ctx.step.run("greet", greeting, name)
    await ctx.step.sleep("pause for effect", "2s")
    return text


if __name__ == "__main__":
    hello.serve()
