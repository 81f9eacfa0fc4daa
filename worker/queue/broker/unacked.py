"""Deliveries of workers of older versions, which recorded each message that they held in a hash, by a tag.

Both may serve the same queues while workers are replaced: whoever is alive requeues what dead ones held.
An entry is ``[message,"","queue"]``, with the message byte for byte as sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from worker.queue.broker import keys
from worker.queue.lua import Script

if TYPE_CHECKING:
    import redis

_REQUEUE = Script("requeue_delivery")


def requeue_of_dead_owners(client: redis.Redis) -> int:
    """Requeue the deliveries of owners that are not alive, the next ones first; return their number."""
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.WAITING)
    tags = _tags_of_dead_owners(client)
    return sum(int(_REQUEUE.run(client.execute_command, places, tag, keys.deliveries(""))) for tag in tags)


def _tags_of_dead_owners(client: redis.Redis) -> list[str]:
    """Return the tags of deliveries whose owner is not alive, latest first; not a stock worker's, which has no owner.

    An owner's key exists before its first delivery: the deliveries are read first.
    """
    members: Any = client.zrange(keys.UNACKED_INDEX, 0, -1)
    tags = [tag.decode() for tag in reversed(members)]
    owners = [*{keys.owner_of(tag) for tag in tags} - {""}]
    with client.pipeline(transaction=False) as pipe:
        for owner in owners:
            pipe.exists(keys.owner_key(owner))
        dead = {owner for owner, is_alive in zip(owners, pipe.execute(), strict=True) if not is_alive}
    return [tag for tag in tags if keys.owner_of(tag) in dead]
