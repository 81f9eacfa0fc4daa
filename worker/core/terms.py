"""The terms of a text: what it is about, one spelling for forms of a word."""

from __future__ import annotations

import re
from functools import lru_cache

from worker.core.disagreement.words import stem
from worker.core.words import STOP_WORDS, folded

# Of a script without spaces between words each sign is a term.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_TERM = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]++")

# Taking endings off is most of the work, and words come again; what is kept changes no answer.
_stem = lru_cache(maxsize=4096)(stem)


def terms(text: str) -> list[str]:
    """The words of a text but for function words: folded, without English endings; in order, repeated as they are.

    >>> terms("Which ribbons were RE-TENSIONED in 1958? 铝带")
    ['ribbon', 're', 'tension', '1958', '铝', '带']
    """
    return [_stem(word) for word in _TERM.findall(folded(text, "NFKC")) if word not in STOP_WORDS]
