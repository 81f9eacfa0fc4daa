"""`execute`: the model's answer to a context, checked against its cited sources."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from retrieval_client.errors import Unavailable
from worker.adapters import logs
from worker.adapters.providers.language_model import Prompt, UnknownAnswer
from worker.core import degraded
from worker.core.citations.answering import check_answer
from worker.core.prompting import extractive
from worker.core.prompting.context import LabelledSource
from worker.core.prompting.costs import Bill
from worker.core.prompting.evidence import evidence, missing_codes, missing_names, missing_numbers
from worker.core.prompting.prompts import prompt_cache_key
from worker.core.text.headings import Headings
from worker.jobs.pipeline.queries import CONVERSATION, DENSE, OF_THE_QUESTION
from worker.jobs.pipeline.stages import MODEL_FAILED
from worker.jobs.pipeline.synthesis import labelled_sources, path_of, source_of
from worker.jobs.pipeline.types import Citation, QueryResponse
from worker.model import Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from retrieval_client.errors import RetrievalError
    from worker.adapters.providers.language_model import LanguageModel
    from worker.core.citations.answering import AnswerReport, CitedSource
    from worker.core.prompting.costs import PriceTable
    from worker.jobs.pipeline.types import ContextPackage, RemoteSource
    from worker.settings.searching import ModeSettings

log = logs.logger("worker.pipeline")


@dataclasses.dataclass(frozen=True, slots=True)
class Answerer:
    """Model that answered.

    Attributes:
        provider: the provider.
        name: name of the model.
        response_id: the provider's id of the answer, if a later turn can continue from it.
    """

    provider: str
    name: str
    response_id: str | None = None


class Extractive:
    """Offline default without a model: the sources' own best sentences. See `worker.core.prompting.extractive`."""

    provider, name = extractive.NAME, extractive.VERSION


class Executor:
    """Executor of packages.

    Args:
        model: the language model; None: answers are sentences of the sources.
        prices: prices of the models.
        paths: corpus → field of its chunks' metadata with the document's readable name.
        accepted: kinds of differences that a ``normalised`` quote may have.
        least_evidence: evidence from which the sources answer a question, where no model answers; None: the words that
            they share decide. See `worker.core.prompting.evidence`.
    """

    def __init__(
        self,
        model: LanguageModel | None,
        prices: PriceTable,
        paths: Mapping[str, str],
        accepted: AbstractSet[str],
        least_evidence: float | None = None,
    ) -> None:
        self._accepted = accepted
        self._least_evidence = least_evidence
        self._model = model
        self._prices = prices
        self._paths = paths
        answering = model or Extractive()
        self.provider, self.name = answering.provider, answering.name

    @property
    def has_model(self) -> bool:
        """True if there is a language model."""
        return self._model is not None

    def execute(self, package: ContextPackage, mode: ModeSettings, owner: str) -> tuple[QueryResponse, Answerer]:
        """Return the answer and its model; if the model fails, the answer is sentences of the sources.

        Args:
            package: result of `synthesize_context`.
            mode: the mode, which decides whether answers have sections and whether code is quoted.
            owner: owner of the prompt cache.

        Raises:
            Unavailable: the model failed or refused, and the request requires it.
            UnknownAnswer: the model's server no longer has the answer to continue from.
        """
        sources = labelled_sources(package)
        if not sources:
            # Without sources no model is called, so none can invent an answer.
            return QueryResponse("empty", package=package), Answerer(self.provider, self.name)
        bill = Bill(self._prices)
        question = package.request.question
        whole_texts = {label: extractive.whole_text(source_of(found, self._paths)) for label, found in sources.items()}
        missing = missing_codes(question, [*whole_texts.values()])
        is_foreign = degraded.EMBEDDER_LANGUAGE in package.degraded  # nothing of it need be named in the sources
        unsaid = [] if is_foreign else _unsaid(question, [*whole_texts.values()])
        package = _warned(package, _named("none of these sources names", [*missing, *unsaid]))
        try:
            if self._model is None:
                text, answerer = self._extract(package, sources, mode, names_all=not missing)
            else:
                text, answerer = self._say(self._model, package, owner, bill)
        except UnknownAnswer:
            raise
        except MODEL_FAILED as error:
            if package.request.require_model:
                raise Unavailable(error.message) from None
            package = _without_model(package, error)
            text, answerer = self._extract(package, sources, mode, names_all=not missing)
        texts = {label: _text_of(found) for label, found in sources.items()}
        report = check_answer(text, texts, self._accepted)
        first = next((label for sentence in report.sentences for label in sentence.labels), None)
        if first is not None and answerer.name == Extractive.name and not is_foreign:
            unsaid_there = [name for name in _unsaid(question, [whole_texts[first]]) if name not in unsaid]
            package = _warned(package, _named(f"[{first}] does not name", unsaid_there))
        models = {**package.trace.models, "language_model": f"{answerer.provider} {answerer.name}"}
        trace = dataclasses.replace(package.trace, models=models)
        package = dataclasses.replace(package, costs=(*package.costs, *bill.entries), trace=trace)
        headings = Headings(text) if mode.sections else None
        response = QueryResponse(
            status="ok",
            answer=text,
            citations=tuple(
                citation
                for cited in report.citations
                for citation in self._citations(cited, sources[cited.label], report, headings)
            ),
            supported=tuple(sentence.supported for sentence in report.sentences),
            unknown_labels=tuple(text for text, _ in report.unknown),
            unreadable_labels=tuple(text for text, _ in report.unreadable),
            package=package,
        )
        return response, answerer

    def with_snippets(self, response: QueryResponse, package: ContextPackage) -> QueryResponse:
        """Restore the snippets of a response that was stored without them, from its package."""
        if response.answer is None:
            return response
        texts = {label: _text_of(found) for label, found in labelled_sources(package).items()}
        report = check_answer(response.answer, texts, self._accepted)
        snippets = {cited.label: cited.snippet for cited in report.citations}
        citations = tuple(
            dataclasses.replace(one, snippet=snippets.get(one.label, one.snippet)) for one in response.citations
        )
        return dataclasses.replace(response, citations=citations)

    def _say(self, model: LanguageModel, package: ContextPackage, owner: str, bill: Bill) -> tuple[str, Answerer]:
        request = package.request
        key = prompt_cache_key(owner, self.provider, self.name, request.mode, package.conversation_id)
        prompt = Prompt(
            package.starting_prompt or "",
            package.context_block or "",
            previous_response_id=package.previous,
            cache_key=key,
            keep=request.chat_mode == "chat",
            seed=request.seed,
            temperature=request.temperature,
        )
        reply = model.complete(prompt, bill.of("synthesis"))
        return reply.text, Answerer(self.provider, self.name, reply.response_id)

    def _extract(
        self,
        package: ContextPackage,
        sources: Mapping[str, Candidate | RemoteSource],
        mode: ModeSettings,
        *,
        names_all: bool,
    ) -> tuple[str, Answerer]:
        """Return an answer of the sources' own sentences, doubtful if they do not name all codes of the question."""
        shown = [
            LabelledSource(label, i, source_of(found, self._paths)) for i, (label, found) in enumerate(sources.items())
        ]
        answerer = Answerer(Extractive.provider, Extractive.name)
        questions = [package.request.question, *filter(None, [package.trace.conversation])]
        is_near = names_all and self._is_near(package, questions, shown, [*sources.values()])
        if is_near is not False:
            said = _said(questions, shown, with_code=mode.show_context, is_near=is_near is True)
            if said != extractive.NO_ANSWER:
                return said, answerer
        nearest = _said(questions, shown, with_code=mode.show_context, is_near=True, most_sentences=1)
        return extractive.doubted(nearest), answerer

    def _is_near(
        self,
        package: ContextPackage,
        questions: Sequence[str],
        shown: Sequence[LabelledSource],
        sources: Sequence[Candidate | RemoteSource],
    ) -> bool | None:
        """Return whether there is evidence enough that the sources hold the answer; None if words have to decide."""
        similarities = _similarities(package, sources)
        if similarities is None or self._least_evidence is None:
            return None
        telling = [i for i, labelled in enumerate(shown) if extractive.says_something(labelled.source)]
        if not telling:
            return False
        texts = [extractive.whole_text(shown[i].source) for i in telling]
        return evidence(questions, texts, [similarities[i] for i in telling]) >= self._least_evidence

    def _citations(
        self,
        cited: CitedSource,
        found: Candidate | RemoteSource,
        report: AnswerReport,
        headings: Headings | None,
    ) -> Sequence[Citation]:
        """Return the citations of a source: one per section that cites it, if answers have sections."""
        citation = self._citation(cited, found)
        if headings is None:
            return [citation]
        starts = [report.sentences[i].span[0] for i in cited.sentences]
        sections = dict.fromkeys(headings.at(start) for start in starts) or {None: None}
        return [dataclasses.replace(citation, section=section) for section in sections]

    def _citation(self, cited: CitedSource, found: Candidate | RemoteSource) -> Citation:
        shared: dict[str, Any] = {"label": cited.label, "snippet": cited.snippet, "quote": cited.verdict}
        if not isinstance(found, Candidate):
            return Citation(source_path=found.title or None, url_or_doi=found.url or None, **shared)
        source = source_of(found, self._paths)
        return Citation(
            chunk_id=found.chunk.id,
            source_path=path_of(found, self._paths),
            heading=found.chunk.section,
            page_number=found.chunk.page,
            url_or_doi=source.url,
            **shared,
        )


def _said(
    questions: Sequence[str],
    shown: Sequence[LabelledSource],
    *,
    with_code: bool,
    is_near: bool,
    most_sentences: int = extractive.MOST_SENTENCES,
) -> str:
    """Return what answers the question; if nothing does, what answers it in its conversation.

    Sources that are near may say it in other words: of the last of the questions, where there are several.
    """
    for question in questions:
        least = 0.0 if is_near and question is questions[-1] else extractive.LEAST_RELEVANCE
        said = (
            extractive.code_answer(question, shown)
            if with_code
            else extractive.answer(question, shown, most_sentences, least_relevance=least)
        )
        if said != extractive.NO_ANSWER:
            return said
    return extractive.NO_ANSWER


def _similarities(package: ContextPackage, sources: Sequence[Candidate | RemoteSource]) -> list[float] | None:
    """Return each source's similarity to the question, -1 where only other texts found it; None if one is not known.

    Nor are they known where the embedder does not know the language.
    """
    if degraded.EMBEDDER_LANGUAGE in package.degraded:
        return None
    similarities = []
    for one in sources:
        if not isinstance(one, Candidate) or one.similarity is None:
            return None
        scores = {leg.leg: leg.score for leg in one.scores.legs}
        similar = [scores[leg] for leg in (DENSE, CONVERSATION) if leg in scores]
        # With another leg of vectors, the similarity may be that leg's.
        if scores and scores.keys() <= OF_THE_QUESTION - {DENSE}:
            similar.append(one.similarity)
        similarities.append(max(similar, default=-1.0))
    return similarities if any(one > -1.0 for one in similarities) else None


_LONGEST_SHOWN = 40
"""Most characters of a code that a warning shows."""


def _unsaid(question: str, texts: Sequence[str]) -> list[str]:
    """Return the numbers and names of a question that stand in none of some sources."""
    return [*missing_numbers(question, texts), *missing_names(question, texts)]


def _named(fact: str, names: Sequence[str]) -> list[str]:
    """Return a warning that says something of codes, numbers or names of the question, if there are any."""
    shown = [name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…" for name in names]
    return [f"answer: {fact} {', '.join(shown)}"] if shown else []


def _warned(package: ContextPackage, warnings: Sequence[str]) -> ContextPackage:
    """Return a package with further warnings."""
    trace = dataclasses.replace(package.trace, warnings=(*package.trace.warnings, *warnings))
    return dataclasses.replace(package, trace=trace)


def _without_model(package: ContextPackage, error: RetrievalError) -> ContextPackage:
    """Mark a package as degraded: its model did not answer."""
    log.warning("answer degraded", code=degraded.LANGUAGE_MODEL, what="synthesis", reason=error.message)
    warnings = (*package.trace.warnings, f"synthesis: {error.message}")
    return dataclasses.replace(
        package,
        degraded=tuple(degraded.ordered([*package.degraded, degraded.LANGUAGE_MODEL])),
        trace=dataclasses.replace(package.trace, warnings=warnings),
    )


def _text_of(found: Candidate | RemoteSource) -> str:
    return found.chunk.text if isinstance(found, Candidate) else found.snippet
