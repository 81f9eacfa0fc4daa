"""The words, numbers and signs of a sentence, one after the other."""

from __future__ import annotations

import re

from worker.core.citations.disagreement.words import read_word
from worker.core.text.unicode_data import known

_NUMBER = r"""
    (?>(?:(?<![\w)\]])[-+\u2212–])?)
    (?:\d{1,3}+(?>(?:[,'’\u00a0\u2009\u202f]\d{3})+)(?!\d)(?>(?:\.\d++)?) | \d++(?>(?:[.,]\d++)?) | (?<![\w.])\.\d++)
    (?>(?:[eE][-+]?+\d{1,2}+(?!\w))?)
"""
_TOKEN = re.compile(
    rf"""
    (?P<word>
        (?!https?://|www\.|v\d|dB\([A-Z]\))  # these are below
        (?: [aApP]\.\s?[mM]\b\.?
        | [A-Za-z](?>(?:\w|[\u00ad\u0300-\u036f])*)(?>(?:['’]\w++)*)(?>(?:-\d\w*+)*)  # HT-2207 as well
        | [^\W\d_](?>(?:[^\W\d_]|[\u00ad\u0300-\u036f])*)(?>(?:['’]\w++)*) )  # scripts without spaces: up to a digit
      )
    | (?P<date>\d{{4}}-\d\d?-\d\d?(?![\w-]) | \d\d?[./]\d\d?[./]\d{{4}}(?!\w) | \d{{4}}/\d\d?/\d\d?(?!\w))
    | (?P<name>(?:https?://|www\.|(?<!\w)/)[^\s<>"']++ | (?<![\w.])v?+\d++(?>(?:\.\d++){{2,}}) | v\d\w*+(?>(?:\.\d++)*))
    | (?P<time>\d\d?:[0-5]\d(?>(?::[0-5]\d)?)(?![\d:]))
    | (?P<ratio>\d{{1,9}}+[:/]\d{{1,9}}+(?![\d:/]))
    | (?P<number>{_NUMBER})
    | (?P<unit>dB\([A-Z]\) | °\s?[CFK](?!\w) | [℃℉%‰°\u2126\u03a9$£€¥₹])
    | (?P<sign>[-,;:()—–/&])
    """,
    re.VERBOSE,
)

_LOOK_AROUND = 4


class Tokens:
    """The tokens of a sentence, each by its index; past both ends (index -1 as well) stands nothing.

    So looking around, up to `_LOOK_AROUND` tokens far, needs no bounds.

    Args:
        text: the sentence.

    Attributes:
        length: how many tokens there are.
        kinds: of each, which part of `_TOKEN` it is.
        texts: of each, its text.
        starts: of each, where it begins.
        ends: of each, where it ends.
        words: of each, what it is.
        norms: of each, its plain form.
    """

    def __init__(self, text: str) -> None:
        tokens = list(_TOKEN.finditer(known(text)))
        self.length = len(tokens)
        self.kinds = [str(token.lastgroup) for token in tokens]
        self.texts = [token[0] for token in tokens]
        self.starts = [token.start() for token in tokens]
        self.ends = [token.end() for token in tokens]
        self.words = [*map(read_word, self.kinds, self.texts)]
        self.norms = [word.norm for word in self.words] + [""] * _LOOK_AROUND
        self.kinds += [""] * _LOOK_AROUND

    def adjacent(self, i: int) -> bool:
        """Return whether a token begins where the one before ends."""
        return 0 < i < self.length and self.starts[i] == self.ends[i - 1]
