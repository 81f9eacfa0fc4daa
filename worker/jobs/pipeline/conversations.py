"""Conversations: the turn that a job is, and what it continues, of the same owner alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from retrieval_client.canonical import canonical_sha256
from retrieval_client.errors import InvalidJob, NotAuthorised
from worker.core.prompting import prompts
from worker.core.prompting.conversation import TURNS
from worker.jobs.pipeline.synthesis import Chain
from worker.jobs.pipeline.types import QueryRequest, Turn
from worker.jobs.recording import claims_digest, job_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrieval_client.contract.jobs import RunPipeline
    from worker.adapters.postgres.sessions import Sessions
    from worker.jobs.context import JobContext
    from worker.jobs.pipeline.stages import Report
    from worker.model import Principal


@dataclasses.dataclass(frozen=True)
class ConversationTurn:
    """Turn of a conversation: a job, its caller, and ids of what it creates, the same if the message is redelivered."""

    job: RunPipeline
    request: QueryRequest
    caller: Principal
    report: Report
    conversation_id: str
    response_id: str
    package_id: str

    @classmethod
    def of(cls, job: RunPipeline, request: QueryRequest, caller: Principal, context: JobContext) -> ConversationTurn:
        """Return the turn that a job is."""
        digest = canonical_sha256([caller.owner, request.prior_response_id, job_digest(job).hex(), context.task_id])
        ids = request.conversation_id or f"conv_{digest[:24]}", f"resp_{digest[:24]}", f"pkg_{digest[24:48]}"
        return cls(job, request, caller, context.report, *ids)


class Conversations:
    """Stored turns.

    Args:
        sessions: stores them.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def continued(
        self, turn: ConversationTurn, setting: prompts.Setting, most_turns: int
    ) -> tuple[ConversationTurn, Chain]:
        """Return a turn in the conversation that it continues, and its chain.

        Args:
            turn: the turn.
            setting: its provider, model, mode and claims.
            most_turns: number of earlier turns that its mode shows.

        Raises:
            InvalidJob: the caller has no such earlier answer, or it is of another conversation.
            NotAuthorised: the caller has no owner claim.
        """
        request = turn.request
        if request.prior_response_id is None:
            return turn, Chain(setting, history=self._history(turn, most_turns))
        owner = required_owner(turn.caller, "prior_response_id")
        previous = self._sessions.response(owner, request.prior_response_id)
        if previous is None:
            raise InvalidJob("no such response", "prior_response_id")
        if request.conversation_id not in {None, previous.conversation_id}:
            raise InvalidJob("expected the conversation of prior_response_id", "conversation_id")
        turn = dataclasses.replace(turn, conversation_id=previous.conversation_id)
        was = prompts.Setting(previous.provider, previous.model, previous.mode, previous.claims_sha256.hex())
        earlier = prompts.Turn(was, previous.starting_prompt)
        return turn, Chain(setting, earlier, previous.provider_response_id, self._history(turn, most_turns))

    def _history(self, turn: ConversationTurn, most_turns: int) -> Sequence[Turn]:
        """Return the earlier turns: the caller's, else the stored ones."""
        request, caller = turn.request, turn.caller
        if request.conversation_history or request.chat_mode == "single" or not caller.owner:
            return request.conversation_history
        if request.conversation_id is None and request.prior_response_id is None:
            return ()
        turn_limit = max(most_turns, TURNS)
        # One more: a redelivered job may have stored its own answer.
        turns = self._sessions.turns(caller, turn.conversation_id, turn_limit + 1)
        # Answers to other claims may contain what these claims may not see.
        claims = claims_digest(caller)
        return [
            earlier
            for stored_turn in [earlier for earlier in turns if earlier.response_id != turn.response_id][-turn_limit:]
            if stored_turn.claims_sha256 == claims
            for earlier in (Turn("user", stored_turn.question), Turn("assistant", stored_turn.answer or ""))
        ]


def required_owner(caller: Principal, field: str) -> Principal:
    """Return the caller, as an owner of conversations and packages.

    Raises:
        NotAuthorised: the caller has no owner claim; the message names the job's field.
    """
    if not caller.owner:
        raise NotAuthorised(
            f"{field}: only a caller with the owner claim (user_id, or principal.owner_claims) has conversations and "
            "packages"
        )
    return caller
