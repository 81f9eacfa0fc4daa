"""Plan of an evaluation: the systems to measure and compare, from the options of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.evaluation.systems import CONTEXTUAL, DENSE, SPARSE, WHOLE, fusions, hybrid, leg, profile
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.evaluation.systems import System


@dataclass(frozen=True, slots=True)
class Plan:
    """Systems to measure, and pairs of them to compare.

    Attributes:
        systems: name → system; each has a name of its own.
        pairs: names of systems, the second compared with the first.
        main: the system whose run is written first.
    """

    systems: Mapping[str, System]
    pairs: tuple[tuple[str, str], ...]
    main: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Options that choose a hybrid retrieval or a profile; empty where the default is meant.

    Attributes:
        fusion: of a hybrid retrieval.
        legs: of a hybrid retrieval, with commas.
        transform: of a hybrid retrieval.
        profile: of the pipeline.
        mode: of the pipeline; empty: the first.
    """

    fusion: str = ""
    legs: str = ""
    transform: str = "none"
    profile: str = ""
    mode: str = ""

    @property
    def leg_names(self) -> list[str]:
        """The legs one by one."""
        return [leg_name.strip() for leg_name in self.legs.split(",") if leg_name.strip()]

    def named(self, name: str) -> System:
        """Return the system of a name: a fusion of the contract, else a profile."""
        if name in fusions():
            return hybrid(name, name, self.leg_names, self.transform)
        return profile(name, self.mode)

    def whole(self) -> System:
        """Return the system of the options themselves."""
        if self.profile:
            return profile(self.profile, self.mode, WHOLE)
        return hybrid(WHOLE, self.fusion, self.leg_names, self.transform)


def plan_of(choice: Choice, compare: tuple[str, str] | None) -> Plan:
    """Return the plan: each leg alone and the whole, each leg compared with the whole; or the two to compare.

    Raises:
        WrongUsage: options that exclude each other.
    """
    if choice.profile and (choice.fusion or choice.legs):
        raise WrongUsage("--profile: a profile has its own fusion and legs; give it, or --fusion and --legs")
    if compare is None:
        alone = [leg(name, choice.transform) for name in (DENSE, SPARSE, CONTEXTUAL)]
        pairs = tuple((leg_system.name, WHOLE) for leg_system in alone)
        return Plan({system.name: system for system in (*alone, choice.whole())}, pairs, WHOLE)
    if choice.profile or choice.fusion:
        raise WrongUsage("--compare: it names what is measured; leave out --fusion and --profile")
    if compare[0] == compare[1] or not all(compare):
        raise WrongUsage("--compare: expected two different fusions or profiles")
    return Plan({name: choice.named(name) for name in compare}, (compare,), compare[0])
