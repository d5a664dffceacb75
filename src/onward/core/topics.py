"""Topics and the patterns that they are subscribed by.

Both are words with dots between them. In a pattern `*` stands for one word, whatever it is, and `#` for any number of
words, none included. The database matches (subscribe.sql makes a regular expression of a pattern); `matches` says what
it has to find.
"""

from __future__ import annotations

import re

from onward.errors import InvalidName

_WORD = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 255


def topic_name(topic: str) -> str:
    """The name, if something may be published there."""
    return _checked("topic", topic, False)


def topic_pattern(pattern: str) -> str:
    """The pattern, if it is one."""
    return _checked("topic pattern", pattern, True)


def matches(pattern: str, topic: str) -> bool:
    """Does the pattern stand for the topic?"""
    reached = {0}  # how many words of the pattern may be used up
    words = pattern.split(".")
    reached = _past_hashes(words, reached)
    for word in topic.split("."):
        stay = {n for n in reached if n < len(words) and words[n] == "#"}
        on = {n + 1 for n in reached if n < len(words) and words[n] in (word, "*")}
        reached = _past_hashes(words, stay | on)
    return len(words) in reached


def _past_hashes(words: list[str], reached: set[int]) -> set[int]:
    found = set(reached)
    for n in sorted(reached):
        while n < len(words) and words[n] == "#":
            n += 1
            found.add(n)
    return found


def _checked(what: str, name: str, wild: bool) -> str:
    if isinstance(name, str) and len(name) <= _LONGEST:
        words = name.split(".")
        if all(_WORD.fullmatch(word) or (wild and word in ("*", "#")) for word in words):
            return str.__str__(name)
    rule = "words of letters, digits, `_` and `-` with single dots between them"
    rule += ", where `*` stands for one word and `#` for any number" if wild else ""
    shown = repr(name)
    raise InvalidName(
        f"{what} must be {rule}, at most {_LONGEST} characters; got {shown if len(shown) <= 80 else shown[:77] + '...'}"
    )
