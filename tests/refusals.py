"""Commands that Redis refused to the users that are shipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis

from workbench.devstack.redis import REFUSED_HARMLESSLY

if TYPE_CHECKING:
    from workbench.devstack.redis import Redis


def refusals(server: Redis) -> list[dict[str, Any]]:
    """Return what Redis' ACL log says it refused to its users, except commands that may be refused."""
    with redis.Redis.from_url(server.url(), decode_responses=True) as admin:
        entries = [entry for entry in admin.acl_log() if entry["username"] in server.passwords]
    return [entry for entry in entries if entry["object"] not in REFUSED_HARMLESSLY]
