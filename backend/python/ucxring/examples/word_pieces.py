"""BERT's tokenizer: words, then the longest pieces of them that a vocabulary holds."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

LONGEST_WORD = 100  # characters; a longer word is unknown


@functools.cache
def _is_control(character: str) -> bool:
    """What stands for no character: control and format codes, private use, the mark of a failed decoding."""
    kind = unicodedata.category(character)
    return (kind in ("Cc", "Cf", "Co") and character not in "\t\n\r") or character == "\ufffd"


@functools.cache
def _is_punctuation(character: str) -> bool:
    """Punctuation of Unicode, and all of ASCII that is neither letter, digit nor space (`$` and `+`, too)."""
    return unicodedata.category(character).startswith("P") or ("!" <= character <= "~" and not character.isalnum())


@functools.cache
def _is_ideograph(character: str) -> bool:
    """Chinese characters stand for themselves."""
    return unicodedata.name(character, "").startswith("CJK ") and unicodedata.category(character) == "Lo"


def words(text: str) -> Iterator[str]:
    """Words in lower case without accents; each punctuation mark is a word."""
    kept = "".join(" " if each.isspace() else each for each in text if not _is_control(each))
    plain = (each for each in unicodedata.normalize("NFD", kept) if unicodedata.category(each) != "Mn")
    for chunk in "".join(each.lower() for each in plain).split():
        start = 0
        for end, character in enumerate(chunk):
            if _is_punctuation(character) or _is_ideograph(character):
                if start < end:
                    yield chunk[start:end]
                yield character
                start = end + 1
        if start < len(chunk):
            yield chunk[start:]


class WordPieces:
    """A vocabulary, one piece a line, its number the line's; pieces that go on with a word begin with `##`."""

    def __init__(self, file: Path) -> None:
        lines = file.read_text(encoding="utf-8").splitlines()
        self._numbers = {piece: number for number, piece in enumerate(lines)}
        self._unknown, self._first, self._last = (self._numbers[name] for name in ("[UNK]", "[CLS]", "[SEP]"))

    def pieces(self, word: str) -> list[int]:
        """The numbers of the pieces of a word, longest first; that of `[UNK]` when they do not cover it."""
        found: list[int] = []
        start = 0
        while start < len(word) <= LONGEST_WORD:
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), None)
            if end is None:
                return [self._unknown]
            found.append(self._numbers[mark + word[start:end]])
            start = end
        return found or [self._unknown]

    def encode(self, text: str, longest: int) -> list[int]:
        """The numbers for a sentence between `[CLS]` and `[SEP]`, cut to `longest` in all."""
        numbers = [number for word in words(text) for number in self.pieces(word)]
        return [self._first, *numbers[: longest - 2], self._last]

    def batch(self, texts: Sequence[str], longest: int) -> Tensor:
        """The sentences as int64 (sentences, tokens), padded with 0 to the longest of them."""
        encoded = [self.encode(text, longest) for text in texts]
        width = max(map(len, encoded))
        return torch.tensor([numbers + [0] * (width - len(numbers)) for numbers in encoded])
