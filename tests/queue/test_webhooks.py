"""Webhooks, posted to a real server on this machine: signed, tried again, given up, kept out of the inside."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import hypothesis.strategies as st
import pytest
from hypothesis import given
from standardwebhooks.webhooks import Webhook

from onward.client import Client
from onward.errors import InvalidInput
from onward.store.deliveries import Deliveries
from onward.worker.posting import Poster, Refusal
from onward.worker.targets import Targets, is_public
from onward.worker.webhooks import Deliverer
from postgres import Connect

Skip = Callable[[float], Awaitable[None]]
Until = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
HERE = Targets.parse("127.0.0.1")
HTTP = {"type": "http", "url": "https://example.com/hook"}


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Hook:
    """A small HTTP server, and what it was sent. `answers`: what is said to one request after another, then 204."""

    port: int = 0
    requests: list[Request] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """Until then, paths that begin with /slow are not answered."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append(Request(first.split()[1], headers, body))
            if first.split()[1].startswith("/slow"):
                await self.open.wait()
            writer.write(self.answers.pop(0) if self.answers else b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()
        writer.close()


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    hook = Hook()
    server = await asyncio.start_server(hook.serve, "127.0.0.1", 0)
    hook.port = server.sockets[0].getsockname()[1]
    yield hook
    hook.open.set()
    server.close()


@pytest.fixture
async def deliver(client: Client) -> AsyncIterator[Callable[..., Awaitable[Deliverer]]]:
    """Starts a deliverer that may reach this machine, and stops it at the end."""
    started: list[Deliverer] = []

    async def start(**options: Any) -> Deliverer:
        deliverer = Deliverer(await client.database(), **{"targets": HERE, "grace": 0.0, **options})
        started.append(deliverer)
        await deliverer.start()
        return deliverer

    yield start
    for deliverer in started:
        await deliverer.stop()
        await deliverer.stop()


Deliver = Callable[..., Awaitable[Deliverer]]


def came(hook: Hook, count: int = 1) -> Callable[[], Awaitable[bool]]:
    async def asked() -> bool:
        return len(hook.requests) >= count

    return asked


@pytest.fixture
def row(root: asyncpg.Connection) -> Callable[[], Awaitable[asyncpg.Record | None]]:
    """The one delivery that there is to be made."""

    async def row() -> asyncpg.Record | None:
        return await root.fetchrow("select *, visible_at - onward.now() as due from onward.delivery")

    return row


# ---- delivering ----------------------------------------------------------------------------------------------


async def test_a_webhook_is_signed_by_the_standard(client: Client, hook: Hook, deliver: Deliver, until: Until) -> None:
    made = await client.topics.subscribe("user.*", {"type": "http", "url": f"{hook.url}/hook?x=1"})
    await deliver()
    assert await client.topics.publish("user.signed-up", {"é": "a\x00b"}) == 1
    await until(came(hook))
    [request] = hook.requests
    assert request.path == "/hook?x=1"
    assert request.headers["host"] == f"127.0.0.1:{hook.port}"
    assert (request.headers["content-type"], request.headers["onward-topic"]) == ("application/json", "user.signed-up")
    assert made.secret is not None
    assert Webhook(made.secret).verify(request.body, request.headers) == {"é": "a\x00b"}
    with pytest.raises(Exception, match="signature"):
        Webhook(made.secret).verify(request.body + b" ", request.headers)


async def test_what_was_taken_is_not_posted_again(
    client: Client, hook: Hook, deliver: Deliver, until: Until, row: Any
) -> None:
    await client.topics.subscribe("a", {"type": "http", "url": hook.url})
    await client.topics.publish("a", 1)
    await deliver()

    async def gone() -> bool:
        return await row() is None

    await until(gone)
    assert len(hook.requests) == 1


async def test_a_failure_is_tried_again_later_under_the_same_id(
    client: Client, hook: Hook, deliver: Deliver, until: Until, row: Any, skip: Skip, root: asyncpg.Connection
) -> None:
    made = await client.topics.subscribe("a", {"type": "http", "url": hook.url})
    hook.answers += [answer("500 Oops", body=b"out of\norder"), answer("302 Found", f"location: {hook.url}/elsewhere")]
    await client.topics.publish("a", {"n": 1})
    await deliver(pauses=(100, 1000))

    async def waits(attempts: int, least: float) -> bool:
        found = await row()
        return found["attempts"] == attempts and found["error"] and found["due"].total_seconds() > least

    await until(lambda: waits(1, 70))
    [listed] = await client.topics.subscriptions()
    assert (listed.waiting, listed.trouble) == (1, "500 Oops: out of order")
    await skip(130)
    await root.execute("notify onward_delivery")
    await until(lambda: waits(2, 700))
    assert (await row())["error"] == "302 Found"  # not followed
    await skip(1300)
    await root.execute("notify onward_delivery")
    await until(came(hook, 3))
    assert {request.path for request in hook.requests} == {"/"}
    assert len({request.headers["webhook-id"] for request in hook.requests}) == 1
    assert made.secret is not None
    for request in hook.requests:  # the signature has the true time, whatever the database's clock was moved to
        Webhook(made.secret).verify(request.body, request.headers)


async def test_what_cannot_be_delivered_is_a_dead_letter_and_can_be_sent_again(
    client: Client, hook: Hook, deliver: Deliver, until: Until
) -> None:
    made = await client.topics.subscribe("a", {"type": "http", "url": hook.url})
    hook.answers += [answer("503 Busy")]
    await client.topics.publish("a", {"n": 1})
    await deliver(pauses=())
    letters = client.queue("webhooks.dead")
    [letter] = await letters.receive(wait=10)
    headers = letter.headers
    assert letter.body == {"n": 1}
    assert headers.pop("onward-dead-at")
    assert headers == {
        "onward-dead-queue": "webhooks",
        "onward-dead-reason": "503 Busy",
        "onward-dead-receives": "1",
        "onward-dead-subscription": made.id,
        "onward-dead-topic": "a",
        "onward-dead-url": hook.url,
    }
    await letters.change_visibility(letter, 0)
    assert await client.queue("webhooks").resend_dead() == 1
    await until(came(hook, 2))
    assert hook.requests[0].headers["webhook-id"] == hook.requests[1].headers["webhook-id"] == letter.id
    assert (await letters.stats()).ready == 0


async def test_gone_means_gone(client: Client, hook: Hook, deliver: Deliver) -> None:
    await client.topics.subscribe("a", {"type": "http", "url": hook.url})
    hook.answers += [answer("410 Gone")]
    await client.topics.publish("a", 1)
    await deliver()
    assert len(await client.queue("webhooks.dead").receive(wait=10)) == 1


async def test_a_letter_whose_subscription_is_gone_stays(client: Client, hook: Hook, deliver: Deliver) -> None:
    made = await client.topics.subscribe("a", {"type": "http", "url": hook.url})
    hook.answers += [answer("410 Gone")]
    await client.topics.publish("a", 1)
    await deliver()
    [letter] = await client.queue("webhooks.dead").receive(wait=10)
    await client.queue("webhooks.dead").change_visibility(letter, 0)
    await client.topics.unsubscribe(made.id)
    assert await client.queue("webhooks").resend_dead() == 0
    assert (await client.queue("webhooks").stats()).dead == 1


async def test_an_unsubscribed_address_is_not_posted_to_any_more(
    client: Client, hook: Hook, deliver: Deliver, until: Until, row: Any
) -> None:
    made = await client.topics.subscribe("a", {"type": "http", "url": hook.url})
    await client.topics.publish("a", 1)
    await client.topics.unsubscribe(made.id)
    await deliver()

    async def gone() -> bool:
        return await row() is None

    await until(gone)
    assert hook.requests == []


async def test_a_large_body_is_posted_whole(
    client: Client, hook: Hook, deliver: Deliver, until: Until, folder: Path
) -> None:
    made = await client.topics.subscribe("a", {"type": "http", "url": hook.url})
    await client.topics.publish("a", "x" * 1_000_000)
    await deliver()
    await until(came(hook))
    assert made.secret is not None
    assert Webhook(made.secret).verify(hook.requests[0].body, hook.requests[0].headers) == "x" * 1_000_000


async def test_many_deliverers_post_each_once(client: Client, url: str, hook: Hook, until: Until) -> None:
    for n in range(5):
        await client.topics.subscribe("a", {"type": "http", "url": f"{hook.url}/{n}"})
    for _ in range(40):
        await client.topics.publish("a", 1)
    async with Client(url) as other:
        deliverers = [Deliverer(await c.database(), targets=HERE) for c in (client, other, client)]
        await asyncio.gather(*[deliverer.start() for deliverer in deliverers])
        await until(came(hook, 200))
        await asyncio.gather(*[deliverer.stop() for deliverer in deliverers])
    ids = [request.headers["webhook-id"] for request in hook.requests]
    assert len(ids) == len(set(ids)) == 200


async def test_two_deliverers_at_once_never_take_one_delivery(client: Client, url: str, connect: Connect) -> None:
    await client.topics.subscribe("a", HTTP)
    await client.topics.publish("a", 1)
    one, two = await connect(url), await connect(url, lock_timeout="5s")
    async with one.transaction():
        taken, _ = await Deliveries(one).claim(10, 10, [], 60)
        assert len(taken) == 1
        assert (await Deliveries(two).claim(10, 10, [], 60))[0] == []
    assert (await Deliveries(two).claim(10, 10, [], 60))[0] == []


async def test_a_slow_address_does_not_keep_others_waiting(
    client: Client, hook: Hook, deliver: Deliver, until: Until
) -> None:
    await client.topics.subscribe("slow", {"type": "http", "url": f"{hook.url}/slow"})
    await client.topics.subscribe("quick", {"type": "http", "url": f"{hook.url}/quick"})
    for _ in range(20):
        await client.topics.publish("slow", 1)
    await deliver(concurrency=8, each=4)
    await until(came(hook, 4))
    for _ in range(20):
        await client.topics.publish("quick", 1)

    async def quick() -> bool:
        return sum(request.path == "/quick" for request in hook.requests) == 20

    await until(quick)
    assert sum(request.path == "/slow" for request in hook.requests) == 4


async def test_who_is_told_to_stop_gives_back_what_is_not_answered(
    client: Client, hook: Hook, deliver: Deliver, until: Until, row: Any
) -> None:
    await client.topics.subscribe("a", {"type": "http", "url": f"{hook.url}/slow"})
    await client.topics.publish("a", 1)
    deliverer = await deliver()
    await until(came(hook))
    await deliverer.stop()
    found = await row()
    assert (found["attempts"], found["due"].total_seconds() <= 0) == (0, True)


async def test_a_deliverer_that_died_leaves_its_deliveries_to_the_next(
    client: Client, hook: Hook, deliver: Deliver, until: Until, skip: Skip
) -> None:
    await client.topics.subscribe("a", {"type": "http", "url": hook.url})
    await client.topics.publish("a", 1)
    calls = Deliveries(await client.database())
    [taken], _ = await calls.claim(10, 10, [], 60)
    assert await calls.claim(10, 10, [], 60) == ([], pytest.approx(60, abs=5))
    await skip(61)
    await deliver()
    await until(came(hook))

    async def told() -> bool:
        return not await calls.settle(taken, "dead", "too late")

    assert await told()
    assert (await client.queue("webhooks").stats()).dead == 0


async def test_a_deliverer_that_was_never_started_can_be_stopped(client: Client) -> None:
    await Deliverer(await client.database()).stop()


# ---- answers that are none -----------------------------------------------------------------------------------


async def test_an_answer_that_does_not_come_is_not_waited_for(hook: Hook) -> None:
    with pytest.raises(Refusal, match=r"no answer within 0\.1 seconds"):
        await Poster(HERE, timeout=0.1).post(f"{hook.url}/slow", {}, b"1")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"", "IncompleteRead"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000, "LimitOverrun"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10, "never came to an end"),
    ],
)
async def test_what_is_no_answer_is_a_failure(hook: Hook, said: bytes, problem: str) -> None:
    hook.answers.append(said)
    with pytest.raises(Refusal, match=problem):
        await Poster(HERE, timeout=2).post(hook.url, {}, b"1")


async def test_an_answer_without_end_is_read_a_little_of(hook: Hook) -> None:
    hook.answers.append(answer("500 Oops", body=b"x" * 10_000_000))
    reply = await Poster(HERE, timeout=2).post(hook.url, {}, b"1")
    assert (reply.status, len(reply.detail)) == (500, 306)


async def test_early_answers_are_passed_over(hook: Hook) -> None:
    hook.answers.append(answer("103 Early Hints") + answer("200 OK", body=b"thanks"))
    assert await Poster(HERE, timeout=2).post(hook.url, {}, b"1") == (200, "OK")


async def test_nobody_there_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(Refusal, match="ConnectionRefused"):
        await Poster(HERE).post(f"http://127.0.0.1:{port}/", {}, b"1")


# ---- addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "127.1", "2130706433", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
        "169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "[::1]", "[::]", "[fe80::1]",
        "[fd00::1]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]", "[2001:0:7f00:1::]",
    ],
)  # fmt: skip
async def test_the_operators_network_is_out_of_reach(hook: Hook, host: str) -> None:
    with pytest.raises(Refusal, match=r"ONWARD_HTTP_TARGETS|cannot be resolved"):
        await Poster(Targets()).post(f"http://{host}:{hook.port}/", {}, b"1")
    assert hook.requests == []


async def test_an_address_that_must_not_be_reached_fails_with_what_to_do(
    client: Client, hook: Hook, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONWARD_HTTP_TARGETS", raising=False)
    await client.topics.subscribe("a", {"type": "http", "url": hook.url})
    await client.topics.publish("a", 1)
    await deliver(targets=None, pauses=())
    [letter] = await client.queue("webhooks.dead").receive(wait=10)
    assert "ONWARD_HTTP_TARGETS" in letter.headers["onward-dead-reason"]


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_counts_as_public_is_global_and_no_multicast(address: Any) -> None:
    if is_public(address):
        plain = getattr(address, "ipv4_mapped", None) or address
        assert plain.is_global
        assert not plain.is_multicast


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "1.1.1.1"])
def test_the_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("listed", "host", "port", "address", "allowed"),
    [
        ("hooks.internal", "hooks.internal", 80, "10.0.0.1", True),
        ("hooks.internal", "HOOKS.internal.", 80, "10.0.0.1", True),
        ("hooks.internal", "other.internal", 80, "10.0.0.1", False),
        ("hooks.internal:8080", "hooks.internal", 8080, "10.0.0.1", True),
        ("hooks.internal:8080", "hooks.internal", 80, "10.0.0.1", False),
        ("a, 10.0.0.0/8", "anything", 80, "10.9.9.9", True),
        ("10.0.0.0/8", "anything", 80, "::ffff:10.9.9.9", True),
        ("10.0.0.0/8", "anything", 80, "11.0.0.1", True),
        ("10.0.0.0/8", "anything", 80, "192.168.0.1", False),
        ("[::1]:9000", "::1", 9000, "::1", True),
        ("[::1]:9000", "::1", 9001, "::1", False),
        ("::1", "localhost", 1, "::1", True),
        ("fd00::/8", "x", 1, "fd00::1%eth0", True),
        ("", "x", 1, "fe80::1%eth0", False),
        ("", "x", 1, "nonsense", False),
    ],
)
def test_the_operator_says_what_is_allowed_beside(
    listed: str, host: str, port: int, address: str, allowed: bool
) -> None:
    assert Targets.parse(listed).allows(host, port, address) is allowed


@pytest.mark.parametrize("listed", ["http://x", "10.0.0.0/99", "a b", "host:port", ":80"])
def test_a_list_that_is_none_is_refused(listed: str) -> None:
    with pytest.raises(InvalidInput, match="ONWARD_HTTP_TARGETS"):
        Targets.from_environment({"ONWARD_HTTP_TARGETS": listed})


class Names:
    """Answers for the resolver, one after another."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked = list(answers), 0

    async def __call__(self, host: Any, port: Any, **_: Any) -> Any:
        self.asked += 1
        found = self.answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]


async def test_a_name_that_leads_inside_is_refused(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    for answers in (["127.0.0.1"], ["8.8.8.8", "127.0.0.1"]):
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", Names(answers))
        with pytest.raises(Refusal, match="must not reach"):
            await Poster(Targets()).post(f"http://hooks.example:{hook.port}/", {}, b"1")
    assert hook.requests == []


async def test_the_connection_goes_to_the_very_address_that_was_checked(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who answers a second question otherwise (DNS rebinding) is not asked one."""
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names)
    reply = await Poster(HERE, timeout=2).post(f"http://hooks.example:{hook.port}/", {}, b"1")
    assert (reply.status, names.asked) == (204, 1)
    assert hook.requests[0].headers["host"] == f"hooks.example:{hook.port}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of hooks.example, by nobody's authority but its own."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine to make a certificate with")
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
            "3", "-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example", "-out", str(cert),
            "-keyout", str(key),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return cert, key


async def test_a_certificate_is_checked_against_the_hosts_name(
    hook: Hook, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(cert, key)
    server = await asyncio.start_server(hook.serve, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cafile=str(cert))
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", Names(*[["127.0.0.1"]] * 3))
    assert (await Poster(HERE, 5, trusting).post(f"https://hooks.example:{port}/", {}, b"1")).status == 204
    with pytest.raises(Refusal, match=r"CertificateVerification|CERTIFICATE_VERIFY_FAILED"):
        await Poster(HERE, 5, trusting).post(f"https://other.example:{port}/", {}, b"1")
    with pytest.raises(Refusal, match=r"CertificateVerification|CERTIFICATE_VERIFY_FAILED"):
        await Poster(HERE, 5).post(f"https://hooks.example:{port}/", {}, b"1")
    server.close()
    assert len(hook.requests) == 1
