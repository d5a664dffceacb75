"""The deliverer: posts what was published to HTTP addresses, signed, until it was taken or the attempts are used up.

The row in `delivery` is authoritative. A deliverer that gets one has it for its visibility, which is longer than an
attempt may take; whoever dies leaves it to the next. So any number of deliverers may run, and each delivery is made
once, or again where a deliverer died before it could say so: receivers tell repeats by `webhook-id`, which stays the
same. What cannot be delivered ends in the tenant's queue `webhooks.dead`, is looked at like any dead letter, and sent
again by `client.queue("webhooks").resend_dead()` or `onward queue dead webhooks --resend`.

Retries follow the schedule that Standard Webhooks recommends, over a day and a half; 410 ends them at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from onward.client.payloads import Payloads
from onward.core import webhooks
from onward.errors import OnwardError, PayloadCorrupt, PayloadMissing
from onward.store.database import TRANSIENT, Database
from onward.store.deliveries import CHANNEL, Deliveries, Delivery
from onward.store.listener import Listener
from onward.worker.posting import Poster, Refusal
from onward.worker.targets import Targets

_log = logging.getLogger("onward")

PAUSES = (5.0, 60.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0)
"""Seconds between attempts, give or take a fifth."""
POLL = 1.0
FORGET = 60.0
"""Seconds between looks for publications whose keys need not be remembered any more."""
_SPARE = 45.0
"""Seconds for which a delivery is somebody's beyond the longest attempt: for its payload and for the database."""


class Deliverer:
    """Delivers for all tenants of a database. `stop` may be called twice, and before `start`."""

    def __init__(
        self,
        database: Database,
        *,
        targets: Targets | None = None,
        payloads: Payloads | None = None,
        concurrency: int = 50,
        each: int = 10,
        timeout: float = 15.0,
        pauses: Sequence[float] = PAUSES,
        grace: float = 5.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`each`: requests to one subscription that are taken up together. Without `targets`, ONWARD_HTTP_TARGETS says
        which addresses are allowed beside public ones."""
        self._calls = Deliveries(database)
        self._payloads = payloads or Payloads(database)
        self._poster = Poster(Targets.from_environment() if targets is None else targets, timeout, context)
        self._concurrency, self._each, self._pauses, self._grace = concurrency, each, tuple(pauses), grace
        self._listener = Listener(database, CHANNEL, lambda _: self._wake.set())
        self._wake = asyncio.Event()
        self._attempts: dict[asyncio.Task[None], UUID] = {}
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns when it is told of new deliveries, or will have to poll for them."""
        await self._listener.start()
        self._loops = [
            asyncio.create_task(self._deliver(), name="onward-deliverer"),
            asyncio.create_task(self._forget(), name="onward-forgetting"),
        ]

    async def stop(self) -> None:
        """Attempts get a little time to end; the others are given back, and do not count."""
        loops, self._loops = self._loops, []
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        if self._attempts:
            await asyncio.wait(self._attempts, timeout=self._grace)
        for task in list(self._attempts):
            task.cancel()
        await asyncio.gather(*self._attempts, return_exceptions=True)
        await self._listener.stop()

    # ---- taking up -----------------------------------------------------------------------------------------

    async def _deliver(self) -> None:
        while True:
            self._wake.clear()
            pause = POLL
            try:
                pause = await self._take_up()
            except TRANSIENT as error:
                _log.warning("webhooks wait for the database: %s", error or type(error).__name__)
            if pause > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()

    async def _take_up(self) -> float:
        """Begins what is due, and answers when to look again."""
        room = self._concurrency - len(self._attempts)
        if room <= 0:
            return POLL
        counts = Counter(self._attempts.values())
        full = [subscription for subscription, count in counts.items() if count >= self._each]
        found, due_in = await self._calls.claim(room, self._each, full, self._poster.timeout + _SPARE)
        for delivery in found:
            task = asyncio.create_task(self._attempt(delivery), name=f"onward-webhook-{delivery.id}")
            self._attempts[task] = delivery.subscription_id
            task.add_done_callback(self._ended)
        if found or due_in is None:
            return 0.0 if found else POLL
        return min(POLL, max(due_in, 0.05))  # due and not taken up: in the hands of another deliverer just now

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._attempts[task]
        self._wake.set()

    async def _forget(self) -> None:
        while True:
            await asyncio.sleep(FORGET * random.uniform(0.5, 1.5))
            try:
                while await self._calls.forget_publications(1000) == 1000:
                    pass
            except TRANSIENT as error:
                _log.debug("publications are forgotten later: %s", error)

    # ---- one delivery --------------------------------------------------------------------------------------

    async def _attempt(self, delivery: Delivery) -> None:
        try:
            problem, hopeless = await self._post(delivery)
            if problem is None:
                await self._calls.settle(delivery, "done")
            elif hopeless or delivery.attempt > len(self._pauses):
                await self._calls.settle(delivery, "dead", problem)
                _log.warning("webhook %s for topic %s is given up: %s", delivery.id, delivery.topic, problem)
            else:
                pause = self._pauses[delivery.attempt - 1] * random.uniform(0.8, 1.2)
                await self._calls.settle(delivery, "retry", problem, pause)
        except asyncio.CancelledError:
            with contextlib.suppress(*TRANSIENT):  # or it is somebody's again when its visibility is over
                await self._calls.settle(delivery, "release")
            raise
        except TRANSIENT as error:
            _log.warning("webhook %s is tried again later: %s", delivery.id, error or type(error).__name__)

    async def _post(self, delivery: Delivery) -> tuple[str | None, bool]:
        """What went wrong, if anything, and whether there is no use in another attempt."""
        try:
            body = await self._payloads.whole(delivery.body)
            reply = await self._poster.post(delivery.url, _headers(delivery, body), body)
        except (PayloadMissing, PayloadCorrupt) as error:
            return f"{type(error).__name__}: {error}", True
        except (Refusal, OnwardError) as error:
            return str(error), False
        if 200 <= reply.status < 300:
            return None, False
        return f"{reply.status} {reply.detail}".strip(), reply.status == 410


def _headers(delivery: Delivery, body: bytes) -> dict[str, str]:
    webhook_id, timestamp = str(delivery.id), int(delivery.at)
    return {
        "content-type": "application/json",
        "user-agent": "onward-webhooks",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": webhooks.signature(delivery.secret, webhook_id, timestamp, body),
        "onward-topic": delivery.topic,
    }
