"""Kombu's Redis channel on top of claims: delivery, requeueing and dead-lettering of each claimed message."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import time
from collections import deque
from datetime import UTC, datetime
from queue import Empty
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

import redis
from kombu.transport import redis as kombu_redis
from kombu.transport import virtual
from kombu.utils import json as kombu_json
from kombu.utils.encoding import bytes_to_str

from retrieval_client.errors import DeadLettered, InternalError
from worker.adapters import logs
from worker.queue.transport import connections, dead_letters, delayed, inspection, keys, owners, priorities, unacked
from worker.queue.transport.claim import WAIT_SECONDS, Claim, ClaimedMessage, Pop
from worker.queue.transport.clock import ServerClock
from worker.queue.transport.inspection import DelayedMessage, Delivery, Refusal, Rules
from worker.queue.transport.qos import BROKEN, Message, QoS, payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from retrieval_client.errors import RetrievalError

    Answer: TypeAlias = Callable[[Sequence[tuple[str, RetrievalError]]], object]
    IsAnswered: TypeAlias = Callable[[str], bool]

P = ParamSpec("P")
R = TypeVar("R")

log = logs.logger("worker.transport")

AT_A_STRETCH = 256
"""Most messages taken per iteration of the event loop, so that even a flood of refused messages does not keep a worker
from noticing ended jobs or its own shutdown."""

PROMOTE_SECONDS = 0.25
"""Interval between checks for messages that are due."""

MAINTENANCE_SECONDS = 2.0
"""Interval between checks for the messages of dead workers; the first is when a worker begins to claim."""

OVERDUE_SECONDS = 1.0
"""Interval between checks for overdue deliveries, and between requeues of deferred messages."""

OVERDUE_AT_ONCE = 64
DEFERRED_PER_PROCESS = 2
"""Deferred messages that a worker requeues to an idle queue at a time, per message of its prefetch count."""

OTHERS_BETWEEN = 400
"""Deliveries from a busy queue per deferred message that is requeued to it."""

SILENCE_SECONDS = 3.0
"""Time after which an overdue reply means that its connection is half-open."""

FANOUT_BYTES = 2_097_152
"""Most bytes of a message of remote control or events; longer ones are ignored."""

PUBLISHED_SECONDS = 0.02
"""Time per iteration of the event loop for remote control and events, so that a flood of them does not block jobs."""

PAUSE_SECONDS = 1.0
"""Pause of claiming after failures could not be stored for their senders."""


class Pool(Protocol):
    """Pool of processes that run jobs in bundles; see `worker.queue.pool`.

    Attributes:
        processes: number of processes.
        bundle: largest number of jobs in a bundle.
    """

    processes: int
    bundle: int

    def accepts(self, task: str, content: Any) -> bool:
        """Return whether a job may be in a bundle, by its task and its message's content."""

    def room(self) -> int:
        """Return the number of further jobs that idle processes can begin."""

    def together(self) -> AbstractContextManager[None]:
        """Give processes, in bundles, the jobs that are delivered meanwhile."""


def _whole(work: Callable[Concatenate[Channel, P], R]) -> Callable[Concatenate[Channel, P], R]:
    """Decorate work of a channel in the middle of which no claim is closed."""

    @functools.wraps(work)
    def at_work(channel: Channel, /, *args: P.args, **options: P.kwargs) -> R:
        with channel._at_work():  # noqa: SLF001 -- the class's own decorator
            return work(channel, *args, **options)

    return at_work


class Channel(kombu_redis.Channel):
    """Channel that claims messages.

    Attributes:
        rules: limits for a message; the transport option ``rules``.
        is_left: True if its connection is lost while its worker continues.
        has_published: True if messages of remote control or events may be left over for the next loop iteration.
    """

    QoS = QoS
    Message = Message
    from_transport_options = (  # type: ignore[assignment] # one more
        *kombu_redis.Channel.from_transport_options,
        "rules",
    )
    priority_steps = [0]  # noqa: RUF012 -- kombu's form: one list a queue
    max_connections = 64  # one per queue, and those of all threads
    rules = Rules()

    def __init__(self, *args: Any, **options: Any) -> None:
        self._claims: dict[str, Claim] = {}
        self.is_left = self.has_published = False
        self._kept: redis.Redis | None = None
        self._clock = ServerClock(time.monotonic)
        self._deliveries = 0
        self._paused_until = self._maintained = self._looked = self._promoted = float("-inf")
        self._turn = self._depth = 0
        self._cancelled: list[Claim] = []
        self._taken: deque[ClaimedMessage] = deque()
        super().__init__(*args, **options)
        if self.global_keyprefix or not self.ack_emulation or list(self.priority_steps) != [0]:
            raise ValueError("not supported by this transport: global_keyprefix, ack_emulation = false, priority_steps")

    # --- connections --------------------------------------------------------------------------------

    def conn_or_acquire(self, client: redis.Redis | None = None) -> Any:
        """Return a client for non-blocking commands, as a context manager.

        Kombu creates one each time. It can be kept: it takes a connection from its pool, which is thread-safe, for each
        command; and a fork discards the pool, and the client with it.
        """
        if client is None:
            if self.connection is None or self.is_left:  # a job ended after its channel: Redis gets it later
                raise redis.ConnectionError("the channel is closed")
            pool = self.pool
            if self._kept is None or self._kept.connection_pool is not pool:
                self._kept = self._create_client()
            client = self._kept
        return contextlib.nullcontext(client)

    def suspect_connections(self) -> None:
        """Reconnect everything: if one connection was silent, each of the others would block as long."""
        for claim in self._claims.values():
            claim.drop()
        if self.connection is not None and self._pool is not None:
            self._pool.disconnect(inuse_connections=False)

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        """Return kombu's connection parameters; the poller is notified before a polled connection closes."""
        parameters = super()._connparams()
        before_close = self._on_connection_disconnect if asynchronous else _ignore
        parameters["connection_class"] = connections.announced(parameters["connection_class"], before_close)
        return parameters  # type: ignore[no-any-return] # kombu has no types

    def _on_connection_disconnect(self, connection: Any) -> None:
        if self._in_listen is connection:
            self._in_listen = False
        if self.connection is not None:
            self.connection.cycle.unwatch(connection)

    def _once_client(self) -> redis.Redis:
        """Return a client without retries: they take longer than an owner may be silent."""
        parameters = self._connparams() | {"health_check_interval": 0}
        return self.Client(connection_pool=redis.ConnectionPool(**parameters))  # type: ignore[no-any-return] # kombu has no types

    # --- consumers ----------------------------------------------------------------------------------

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **options: Any) -> Any:
        """Begin to claim from a queue."""
        consumed = super().basic_consume(queue, no_ack, *args, **options)
        if queue not in self.active_fanout_queues and queue not in self._claims:
            if not no_ack:
                self._take_over()
            kind = Pop if no_ack else Claim
            self._claims[queue] = kind(queue, self.client, self._heart, time.monotonic, self.rules.max_bytes)
        return consumed

    def _take_over(self) -> None:
        """Take over this worker's deliveries from a lost connection."""
        before = self.connection.deliveries
        if before is None:
            self.connection.deliveries = self.qos
        elif before.channel.is_left:
            before.move_to(self)
            self._qos = before

    @property
    def _heart(self) -> owners.Heart:
        if self.qos.heart is None:
            self.qos.heart = owners.Heart(self._once_client(), _process_name())
        return self.qos.heart  # type: ignore[no-any-return] # kombu has no types

    def leave(self) -> None:
        """Drop the connections only: jobs continue, and the next channel settles their deliveries."""
        for claim in self._claims.values():
            claim.drop()
        self._claims.clear()
        for taken in self._taken:
            self.qos.owe_requeue(taken.tag, taken.claim.queue)
        self._taken.clear()
        self.is_left = True

    def _basic_cancel(self, consumer_tag: str) -> Any:
        queue = self._tag_to_queue.get(consumer_tag)
        cancelled = super()._basic_cancel(consumer_tag)
        if queue in self._claims and queue not in self.active_queues:
            with self._at_work():
                self._cancelled.append(self._claims[queue])
                # A new dictionary: the work below may be in the middle of the old one.
                self._claims = {name: claim for name, claim in self._claims.items() if name != queue}
        return cancelled

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Close claims that are cancelled meanwhile at the end: Celery cancels consumers in the handler of SIGQUIT.

        That runs on top of what this channel does at the moment: a claim that waits for Redis' reply can't be closed,
        and the owner of a message that is being recorded would be gone before the message is.
        """
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            while self._cancelled and not self._depth:
                self._close_claim(self._cancelled.pop())

    def _close_claim(self, claim: Claim) -> None:
        with self.conn_or_acquire() as client:
            for taken in [one for one in self._taken if one.claim is claim]:
                self._taken.remove(taken)
                with contextlib.suppress(*BROKEN):  # requeued later as a dead owner's
                    unacked.requeue(client, taken.tag, claim.queue, "RPUSH", uncounted=True)
            claim.close(client)
            self._drop_idle_owners(client)

    def _drop_idle_owners(self, client: redis.Redis) -> None:
        with contextlib.suppress(*BROKEN):  # the owners expire
            self._heart.drop_idle(client, self.qos.holders)

    # --- bindings -----------------------------------------------------------------------------------

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Record a binding; a full Redis refuses that, and jobs arrive without it: their senders record it too."""
        with contextlib.suppress(redis.OutOfMemoryError):
            super()._queue_bind(exchange, routing_key, pattern, queue)

    def _refresh_binding(self, keys: Sequence[str], args: Sequence[Any], client: Any) -> None:
        """Record or renew the binding of a queue that expires, by plain commands: Flower's user may run no script.

        A fanout exchange needs no record: its messages are published, and nothing looks its queues up.
        """
        (table, deadlines), (member, exchange, milliseconds) = keys, args
        if self.typeof(exchange).type == "fanout":
            return
        with self.conn_or_acquire() as now:
            deadline = int(self._clock.read(now).timestamp() * 1000) + milliseconds
        client.sadd(table, member)
        client.zadd(deadlines, {exchange: deadline}, gt=True)

    def sweep_bindings(self, limit: int = 100) -> int:
        """Delete overdue bindings; only a worker does, by kombu's script."""
        is_worker = self.connection.answer is not None
        return int(super().sweep_bindings(limit)) if is_worker else 0

    # --- claims -------------------------------------------------------------------------------------

    @property
    def on_hand(self) -> int:
        """Number of claimed messages that were not inspected yet."""
        return len(self._taken)

    @_whole
    def acknowledge(self, done: Sequence[unacked.Acknowledgement]) -> None:
        """Acknowledge deliveries; if there is room and no blocking claim, take the next messages in the same step."""
        claims = list(self._claims.values())
        usual = all(claim.reliable and claim.idle and claim.burst == 1 for claim in claims)
        if claims and usual and self._may_claim():
            # On failure the claim is dropped, and `QoS` acknowledges again.
            self._take_next(claims[self._turn % len(claims)], done)
            self._turn += 1
            return
        with self.conn_or_acquire() as client:
            unacked.acknowledge(client, done)

    def _take_next(self, claim: Claim, done: Sequence[unacked.Acknowledgement] = (), first: bytes = b"") -> int:
        """Take messages while there is room, to be settled; return their number."""
        numbers = range(self._deliveries + 1, self._deliveries + 1 + min(self._room(), claim.stretch))
        self._deliveries += len(numbers)
        taken = claim.take_next(numbers, done, first)
        self._taken.extend(taken)
        return len(taken)

    def _hand_over(self, client: redis.Redis) -> None:
        """Settle the messages that were taken."""
        pool = self.connection.pool
        with contextlib.nullcontext() if pool is None else pool.together():
            while self._taken:
                claim = self._taken[0].claim
                self._settle_one(self._taken.popleft(), client)
                if claim.stretch == 1:
                    self._return_taken(claim, client)

    def _return_taken(self, claim: Claim, client: redis.Redis) -> None:
        """Requeue messages that were taken for a bundle, after one that runs alone: other workers may be idle."""
        for taken in [one for one in reversed(self._taken) if one.claim is claim]:
            unacked.requeue(client, taken.tag, claim.queue, "RPUSH", uncounted=True)
            self._taken.remove(taken)

    def _settle_one(self, taken: ClaimedMessage, client: redis.Redis) -> None:
        """Inspect a message that is recorded as unacknowledged, and pass it on; requeue it if Redis fails meanwhile."""
        try:
            found = self._inspect(taken.raw, taken.count, client)
            gone = self._pass_on(taken, found, client)
        except BROKEN:
            if taken.tag not in self.qos.held:
                self.qos.owe_requeue(taken.tag, taken.claim.queue)
            raise
        taken.claim.settled(1, int(gone))

    def _inspect(self, raw: bytes, count: int, client: redis.Redis) -> Delivery | DelayedMessage | Refusal:
        """Inspect a message, and check how often it was delivered.

        Args:
            raw: the message.
            count: number of its deliveries, this one included.
            client: client of the broker.
        """
        if count > self.rules.max_deliveries + 1:  # the worker that should have dead-lettered it died of reading it
            return Refusal("max_deliveries", _too_often(count), inspection.glimpse_id(raw, self.rules))
        found = inspection.inspect(raw, self.rules, self._clock.read(client))
        if isinstance(found, Delivery) and count > self.rules.max_deliveries:
            return Refusal("max_deliveries", _too_often(count), found.id, found.headers["task"])
        return found

    def _pass_on(self, taken: ClaimedMessage, found: Delivery | DelayedMessage | Refusal, client: redis.Redis) -> bool:
        """Deliver, delay or dead-letter a message that is recorded as unacknowledged.

        Returns:
            True if its place is free for another message.
        """
        queue = taken.claim.queue
        if isinstance(found, DelayedMessage):
            delayed.delay(client, taken.tag, queue, found.due)
            return True
        if isinstance(found, Refusal):
            if found.reason == "max_deliveries" and self._is_answered(found.id):
                self._forget(taken, client)
                return True
            count = taken.count if found.reason == "max_deliveries" else taken.count - 1
            return self._dead_letter_unacked(taken.tag, queue, found, client, count)
        taken.claim.deliveries += 1
        self._deliver(taken, found, client)
        return False

    @_whole
    def claim_more(self) -> None:
        """Take available messages while there is room, queue by queue in turn; then wait on every queue."""
        if self._taken:
            with self.conn_or_acquire() as client:
                self._hand_over(client)
        if not self._claims or not self._may_claim():
            return
        claims = list(self._claims.values())
        with self.conn_or_acquire() as client:
            for claim in claims:
                if not claim.ready:
                    claim.connect(client)
                self.connection.cycle.watch(self, claim)
            idle = [claim for claim in claims if claim.since is None]
            if len(idle) == len(claims) > 1 or any(claim.burst > 1 or claim.refused for claim in idle):
                self._take_turns(idle, client)
        if self._may_claim():
            for claim in claims:
                if claim.since is None and claim.ready and not claim.refused:
                    claim.start()

    def _may_claim(self) -> bool:
        return self._room() > 0

    def _room(self) -> int:
        """Return the number of messages to claim: no more than idle processes can begin, and the prefetch count."""
        if time.monotonic() < self._paused_until:
            return 0
        pool = self.connection.pool
        if pool is None:
            return int(self.qos.room())
        ahead = max(0, (self.qos.prefetch_count or 0) - pool.processes)
        return int(min(self.qos.room(pool.bundle), pool.room() + ahead - self.on_hand))

    def _take_turns(self, claims: list[Claim], client: redis.Redis) -> None:
        """Take messages from several queues in turn.

        No more are taken than there is room for, unless many are refused: then enough that about one is deliverable.
        """
        empty = taken = 0
        while empty < len(claims) and taken < AT_A_STRETCH and self._may_claim():
            claim = claims[self._turn % len(claims)]
            self._turn += 1
            now = self._take_and_settle(claim, client)
            empty = 0 if now else empty + 1
            taken += now

    def _take_and_settle(self, claim: Claim, client: redis.Redis) -> int:
        if claim.reliable and claim.burst == 1:
            taken = self._take_next(claim)
            self._hand_over(client)
            return taken
        messages = claim.take_now()
        self._settle(claim, messages, client)
        return len(messages)

    @_whole
    def on_claim(self, claim: Claim) -> bool:
        """Read a claim's reply; return whether it was a message."""
        raw = claim.read()
        if raw is None:
            return False
        with self.conn_or_acquire() as client:
            self._settle(claim, [raw], client)
        return True

    def _settle(self, claim: Claim, taken: list[bytes], client: redis.Redis) -> None:
        """Settle messages that were just taken: valid ones are delivered while there is room."""
        if not claim.reliable:
            for raw in taken:
                self._deliver_plain(claim.queue, raw)
            return
        try:
            if len(taken) > 1:
                self._settle_many(claim, taken, client)
            elif taken and self._may_claim():
                self._settle_written(claim, taken[0], client)
            elif taken:  # another message took the last place
                claim.requeue(client, taken)
        except BROKEN:
            claim.drop()  # it is not known whether Redis received the last command
            raise

    def _settle_written(self, claim: Claim, raw: bytes, client: redis.Redis) -> None:
        """Count a message before it is inspected: inspecting it may kill the worker. Take more in the same step."""
        # An empty message would be none to the script.
        if raw and claim.burst == 1 and min(self._room(), claim.stretch) > 1:
            self._take_next(claim, first=raw)
            self._hand_over(client)
            return
        written = self._record(claim, raw, client)
        if written is not None:
            self._settle_one(written, client)

    def _settle_many(self, claim: Claim, taken: list[bytes], client: redis.Redis) -> None:
        """Settle a burst, most of which is refused and dead-lettered in one round trip."""
        no_room: list[bytes] = []
        refused: list[tuple[bytes, Refusal]] = []
        later = dead_lettered = 0
        counts: Any = client.hmget(keys.deliveries(claim.queue), [keys.digest(raw) for raw in taken])
        for raw, count in zip(taken, counts, strict=True):
            found = self._inspect(raw, int(count or 0) + 1, client)
            if isinstance(found, Refusal) and found.reason != "max_deliveries":
                refused.append((raw, found))
            elif not isinstance(found, Delivery) or self._may_claim():
                written = self._record(claim, raw, client)
                if written is not None:
                    later += self._pass_on(written, found, client)
            else:
                no_room.append(raw)
        if no_room:
            claim.requeue(client, no_room)
        if refused:
            dead_lettered = self._dead_letter_claimed(claim, refused, client)
        claim.settled(len(taken), dead_lettered + later)

    def _deliver_plain(self, queue: str, raw: bytes) -> None:
        try:
            payload = kombu_json.loads(raw.decode())
        except ValueError:
            log.warning("reply ignored", bytes=len(raw))
            return
        self.connection._deliver(payload, queue)  # noqa: SLF001 -- kombu's own way

    def _record(self, claim: Claim, raw: bytes, client: redis.Redis) -> ClaimedMessage | None:
        """Record a message as unacknowledged; None if it was requeued meanwhile."""
        self._deliveries += 1
        tag = keys.tag(claim.owner, self._deliveries)
        place = keys.inflight(claim.queue, claim.owner)
        with claim.recording(tag):
            count, alone = unacked.record(client, tag, unacked.UnackedMessage(claim.queue, raw), place)
        return ClaimedMessage(claim, raw, tag, count, alone) if count else None

    def _deliver(self, taken: ClaimedMessage, found: Delivery, client: redis.Redis) -> None:
        """Deliver a message that is recorded as unacknowledged."""
        claimed = unacked.UnackedMessage(taken.claim.queue, taken.raw)
        ahead = (self._clock.read(client) - _now()).total_seconds()
        pool = self.connection.pool
        is_bundled = pool is not None and pool.accepts(found.headers["task"], found.content)
        alone = not is_bundled or taken.alone or taken.count > 1
        taken.claim.stretch = 1 if alone else min(2 * taken.claim.stretch, AT_A_STRETCH)
        delivery = payload(found, claimed, taken.tag, taken.count, ahead, alone=alone)
        try:
            self.connection._deliver(delivery, claimed.queue)  # noqa: SLF001 -- kombu's own way
        except BROKEN:
            raise
        except Exception as error:  # noqa: BLE001 -- nothing that a message holds may end the worker
            log.error("message not understood", error=type(error).__name__, where=logs.where(error))  # noqa: TRY400 -- its message may quote the job
            unforeseen = InternalError(f"unforeseen {type(error).__name__}; the worker's log has the details")
            refusal = Refusal("unforeseen", unforeseen, found.id, found.headers["task"])
            self._dead_letter_unacked(taken.tag, claimed.queue, refusal, client)
            virtual.QoS.ack(self.qos, taken.tag)

    # --- dead letters -------------------------------------------------------------------------------

    def _answer(self, refusals: Sequence[Refusal]) -> bool:
        """Store failures for the senders, before their messages are removed; return whether that succeeded."""
        answer: Answer | None = self.connection.answer
        failures = [(refusal.id, refusal.error) for refusal in refusals if refusal.id is not None]
        if answer is None or not failures:
            return True
        try:
            answer(failures)
        except Exception as error:  # noqa: BLE001 -- of any result backend
            log.warning("failures not stored yet", error=type(error).__name__, messages=len(failures))
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            return False
        return True

    def _is_answered(self, task_id: str | None) -> bool:
        """Return whether a job that was delivered too often has a result, and only its acknowledgements were lost."""
        is_answered: IsAnswered | None = self.connection.is_answered
        try:
            return bool(is_answered and task_id and is_answered(task_id))
        except Exception as error:  # noqa: BLE001 -- of any result backend; then its sender can't be informed, either
            log.warning("results not read", error=type(error).__name__)
            return False

    def _forget(self, taken: ClaimedMessage, client: redis.Redis) -> None:
        """Acknowledge a job that has a result."""
        with client.pipeline() as pipe:
            unacked.forget(pipe, taken.tag, taken.claim.queue, keys.digest(taken.raw))
            pipe.execute()
        log.warning("message of an answered job deleted", queue=taken.claim.queue, deliveries=taken.count)

    def _dead_letter_claimed(self, claim: Claim, refused: Sequence[tuple[bytes, Refusal]], client: redis.Redis) -> int:
        """Dead-letter messages of this owner's list; requeue them at the end if their failures can't be stored now.

        Returns:
            Number of dead-lettered messages.
        """
        if not self._answer([refusal for _, refusal in refused]):
            claim.requeue(client, [raw for raw, _ in refused], last=True)
            return 0
        place, now = keys.inflight(claim.queue, claim.owner), _now()
        letters = [dead_letters.compose(raw, refusal, self.rules, now) for raw, refusal in refused]
        with client.pipeline(transaction=False) as pipe:
            for (raw, _), letter in zip(refused, letters, strict=True):
                dead_letters.dead_letter(pipe, claim.queue, place, raw, letter, self.rules)
            counts = pipe.execute()
        for (_, refusal), letter, count in zip(refused, letters, counts, strict=True):
            if count is not None:
                dead_letters.log_dead_letter(claim.queue, refusal, letter, count)
        return len(refused)

    def _dead_letter_unacked(
        self, tag: str, queue: str, refusal: Refusal, client: redis.Redis, count: int | None = None
    ) -> bool:
        """Dead-letter an unacknowledged message and return True; requeue it last if its failure can't be stored."""
        stored = self._answer([refusal])
        if stored:
            self.dead_letter_delivered(tag, refusal, count)
        else:
            unacked.requeue(client, tag, queue, "LPUSH", uncounted=True)
        return stored

    def dead_letter_delivered(self, tag: str, refusal: Refusal, count: int | None = None) -> None:
        """Dead-letter an unacknowledged message atomically; its failure is stored already.

        Args:
            tag: delivery tag.
            refusal: the reason.
            count: number of its deliveries; default: the recorded number.
        """
        with self.conn_or_acquire() as client:
            message = unacked.held(client, tag)
            if message is None:
                return
            digest = keys.digest(message.raw)
            if count is None:
                count = int(client.hget(keys.deliveries(message.queue), digest) or 1)
            letter = dead_letters.compose(message.raw, refusal, self.rules, _now())
            with client.pipeline() as pipe:
                dead_letters.add(pipe, message.queue, letter, count, self.rules)
                unacked.forget(pipe, tag, message.queue, digest)
                pipe.execute()
            dead_letters.log_dead_letter(message.queue, refusal, letter, count)

    # --- maintenance --------------------------------------------------------------------------------

    @_whole
    def maintain(self) -> None:
        """Requeue due and deferred messages, and those of dead workers; defer overdue ones. Every worker does this."""
        if not self._reliable:
            return
        now = time.monotonic()
        try:
            with self.conn_or_acquire() as client:
                if now - self._promoted >= PROMOTE_SECONDS:
                    self._promoted = now
                    self._promote(client)
                if now - self._maintained >= MAINTENANCE_SECONDS:
                    self._maintained = now
                    self._heart.renew(client)
                    self._requeue_dead_owners(client)
                if now - self._looked >= OVERDUE_SECONDS:
                    self._looked = now
                    self.qos.settle_owed()
                    self._requeue_unread(client)
                    self._defer_overdue(client)
                    self._requeue_deferred(client)
        except BROKEN as error:
            self.suspect_connections()
            self._promoted = now + OVERDUE_SECONDS
            log.warning("maintenance postponed", error=type(error).__name__)

    @property
    def _reliable(self) -> list[Claim]:
        return [claim for claim in self._claims.values() if claim.reliable]

    def _promote(self, client: redis.Redis) -> None:
        """Move due messages to their queues; if there are many, the rest in the next iteration."""
        if sum(delayed.promote(client, claim.queue) for claim in self._reliable):
            self._promoted = float("-inf")

    def _requeue_dead_owners(self, client: redis.Redis) -> None:
        owners.requeue_dead(client)
        _log_requeued(unacked.requeue_of_dead_owners(client))
        for claim in self._reliable:
            priorities.refuse(client, claim.queue, self.rules, self._clock.read(client), self._answer)

    def _requeue_unread(self, client: redis.Redis) -> None:
        """Requeue, uncounted, messages that this worker's lost connections took and that were never read.

        Redis may execute a lost connection's last command late, so the check is repeated several times.
        """
        for owner, left in self._heart.left.items():
            _log_requeued(owners.requeue_owned(client, left.queue, owner))
            for tag in reversed(left.unread):
                _log_requeued(unacked.requeue(client, tag, left.queue, "RPUSH", uncounted=True))
        self._heart.drop_idle(client, self.qos.holders)

    def _defer_overdue(self, client: redis.Redis) -> None:
        """Defer overdue deliveries to their queue's list of deferred messages."""
        late = unacked.overdue(client, self.visibility_timeout, OVERDUE_AT_ONCE)
        for tag, queue in zip(late, unacked.queues_of(client, late), strict=True):
            if queue is None:
                self._requeue_foreign(tag, client)
            elif unacked.delay(client, tag, queue):
                log.warning("delivery overdue", queue=queue)

    def _requeue_foreign(self, tag: str, client: redis.Redis) -> None:
        """Requeue a stock worker's delivery, or drop the index entry of one that is gone."""
        try:
            kombu_redis.QoS.restore_by_tag(self.qos, tag, client)
        except (ValueError, TypeError, LookupError):
            log.warning("unacknowledged delivery without a message: ignored", delivery=tag[:64])
            client.zrem(keys.UNACKED_INDEX, tag)

    def _requeue_deferred(self, client: redis.Redis) -> None:
        """Requeue some deferred messages, behind those that wait in their queues.

        They may kill the process that runs them, and a new process costs as much as many jobs: without a bound a few
        such jobs would take the workers' time from all others. In an idle queue they delay no other job.
        """
        idle = DEFERRED_PER_PROCESS * (self.qos.prefetch_count or 1)
        for claim in self._reliable:
            earned, claim.deliveries = divmod(claim.deliveries, OTHERS_BETWEEN)
            _log_requeued(delayed.requeue_deferred(client, claim.queue, idle, earned))

    def _receive(self) -> bool:
        """Receive messages of remote control and events; in an event loop some at a time: each takes milliseconds."""
        until = time.monotonic() + PUBLISHED_SECONDS if self.connection.cycle.is_driven else float("inf")
        received = self.has_published = False
        with contextlib.suppress(Empty):
            while not self.has_published:
                received = bool(self._receive_one(self.subclient)) or received
                self.has_published = time.monotonic() >= until
        return received

    def listen_again(self) -> None:
        """Continue with messages left over from the last iteration."""
        if self.connection is not None and self.has_published:
            self._receive()

    def _receive_one(self, c: Any) -> Any:
        """Receive a message of remote control or events, if there is one.

        Kombu reads without a time limit. If a dead connection was replaced between the poll and the read, or died
        within a message, the worker would block forever.
        """
        try:
            if c.connection is None:
                self._in_listen = False
                raise Empty
            if not c.connection.can_read(timeout=0):
                raise Empty
        except self.connection_errors:
            self._in_listen = False
            raise
        answer = c.parse_response(block=False, timeout=SILENCE_SECONDS)
        event = self._handle_message(c, answer) if isinstance(answer, list | tuple) else {}
        if not bytes_to_str(event.get("type", "")).endswith("message") or not event["data"]:
            return None
        return self._deliver_fanout(bytes_to_str(event["channel"]), event["data"])

    def _deliver_fanout(self, place: str, data: bytes) -> bool:
        """Deliver a published message; ignore one that can't be read, because an exception would end the worker."""
        exchange = place.partition(".")[2].split("/", 1)[0]
        try:
            message = kombu_json.loads(data.decode()) if len(data) <= FANOUT_BYTES else None
            if message and "compression" not in message["headers"]:
                self.connection._deliver(message, self._fanout_to_queue[exchange])  # noqa: SLF001 -- kombu's own way
                return True
            reason = "too long, empty or compressed"
        except BROKEN:
            raise
        except Exception as error:  # noqa: BLE001 -- any published content may be wrong
            reason = type(error).__name__
        log.warning("published message ignored", reason=reason, bytes=len(data))
        return True

    def drop_silent_claims(self) -> None:
        """Drop connections whose reply is overdue."""
        now = time.monotonic()
        for claim in self._claims.values():
            if claim.since is not None and now - claim.since > WAIT_SECONDS + SILENCE_SECONDS:
                log.warning("no reply from Redis: reconnecting", queue=claim.queue)
                claim.drop()

    # --- not claimed --------------------------------------------------------------------------------

    def _purge(self, queue: str) -> int:
        """Delete a queue's waiting and delayed messages; return their number."""
        with self.conn_or_acquire() as client:
            return super()._purge(queue) + delayed.purge(client, queue)  # type: ignore[no-any-return] # kombu has no types

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        """Refuse kombu's `basic_get`, which takes a message before it is recorded as unacknowledged."""
        raise NotImplementedError("this transport has no basic_get: consume the queue")

    def close(self) -> None:
        """Requeue all unacknowledged messages and stop; a channel that was left has none."""
        if not self.closed and not self.is_left:
            for claim in self._claims.values():
                self._close_claim(claim)
            self._claims.clear()
            if self._qos is not None:
                self._qos.restore_unacked_once()
                self._end_owners()
        super().close()

    def _end_owners(self) -> None:
        if self.qos.heart is not None:
            with self.conn_or_acquire() as client:
                self._drop_idle_owners(client)
            self.qos.heart.stop()


def _log_requeued(messages: int) -> None:
    if messages:
        log.warning("deliveries requeued", messages=messages)


def _too_often(count: int) -> DeadLettered:
    return DeadLettered(f"the job was delivered {count} times without an answer: it may be killing its worker")


def _process_name() -> str:
    """Return this process's part of its owners' names."""
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:48]
    return f"{host}-{os.getpid()}"


def _ignore(connection: Any) -> None:
    """Do nothing: the connection is not polled."""


def _now() -> datetime:
    return datetime.now(UTC)
