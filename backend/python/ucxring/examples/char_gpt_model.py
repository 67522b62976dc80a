"""A character-level GPT in its plainest form, and the text it learns from."""

from __future__ import annotations

from dataclasses import dataclass
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """The sizes of the network; `context` is how many characters it looks back over."""

    vocabulary: int
    context: int = 64
    width: int = 128
    layers: int = 3
    heads: int = 4


class Text:
    """Python's own language reference, which comes with every Python: the pages that `help("for")` shows."""

    def __init__(self) -> None:
        pieces = (piece for name in sorted(topics) for piece in topics[name].split("\n\n"))
        text = "\n\n".join(dict.fromkeys(pieces))  # pages repeat each other; each paragraph once
        self.characters = sorted(set(text))
        numbers = {character: number for number, character in enumerate(self.characters)}
        codes = torch.tensor([numbers[character] for character in text])
        split = len(codes) * 9 // 10
        self.training, self.validation = codes[:split], codes[split:]

    def decode(self, codes: Tensor) -> str:
        """The characters that the numbers stand for."""
        return "".join(self.characters[code] for code in codes.tolist())


class Layer(nn.Module):
    """Attention to what came before, then two linear maps; each takes normalised input and adds to it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm = nn.LayerNorm(shape.width)
        self.attend = nn.Linear(shape.width, 3 * shape.width)
        self.gather = nn.Linear(shape.width, shape.width)
        self.think = nn.Sequential(
            nn.LayerNorm(shape.width),
            nn.Linear(shape.width, 4 * shape.width),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width),
        )

    def forward(self, states: Tensor) -> Tensor:
        """States (batch, characters, width) after the layer."""
        mixed = self.attend(self.attention_norm(states)).unflatten(-1, (3, self.heads, -1))
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        states = states + self.gather(found.transpose(1, 2).flatten(2))
        result: Tensor = states + self.think(states)
        return result


class CharGPT(nn.Module):
    """From characters to scores for the character that follows each."""

    def __init__(self, shape: Shape, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.context = shape.context
        self.characters = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.context, shape.width)
        self.layers = nn.Sequential(*(Layer(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.characters.weight  # one table for reading and writing
        self.apply(_small)

    def forward(self, codes: Tensor) -> Tensor:
        """Scores (batch, characters, vocabulary) for `codes` (batch, characters)."""
        states = self.characters(codes) + self.places.weight[: codes.shape[1]]
        scores: Tensor = self.head(self.norm(self.layers(states)))
        return scores

    @torch.no_grad()
    def write(self, start: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """`count` more characters after `start`, drawn one after another."""
        codes = start
        for _ in range(count):
            scores = self(codes[None, -self.context :])[0, -1] / 0.8  # a little bolder than it is sure
            codes = torch.cat([codes, torch.multinomial(scores.softmax(0), 1, generator=generator)])
        return codes[len(start) :]


def _small(module: nn.Module) -> None:
    """GPT-2's initial weights: normal with standard deviation 0.02, no bias."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
