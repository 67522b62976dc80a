"""What a run of `ucxring bench overlap` is asked to do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import NamedTuple, Self

from ucxring.examples.common import WRAPPERS

MODELS = ("layers", "minilm")
HOOKS = ("none", "fp16", "bf16", "int8")
PLAIN = "plain"  # the module without a wrapper


class SystemName(NamedTuple):
    """Whose DistributedDataParallel, over which backend, with which hook."""

    wrapper: str
    backend: str = ""
    hook: str = "none"

    def __str__(self) -> str:
        return "/".join(word for word in self if word not in ("", "none"))


def parse_system(text: str) -> SystemName:
    """The system that "wrapper/backend", "wrapper/backend/hook" or "plain" names. Raises `ValueError`."""
    if text == PLAIN:
        return SystemName(PLAIN)
    name = SystemName(*text.split("/")[:3])
    if text.count("/") not in (1, 2) or name.wrapper not in WRAPPERS or name.hook not in HOOKS:
        allowed = f"wrappers {', '.join(WRAPPERS)}; hooks {', '.join(HOOKS)}"
        raise ValueError(f"a system is WRAPPER/BACKEND, WRAPPER/BACKEND/HOOK or {PLAIN}, not {text!r} ({allowed})")
    return name


@dataclass(frozen=True)
class Plan:
    """One run. The first system is what the others are compared with.

    `batch` is that of one rank in one step, over all its micro-batches; None: as many as make backward take about a
    second per 100 MB of gradients (layers), or 16 sentences (minilm). `megabytes` (10⁶ bytes) are the gradients of
    the model "layers".
    """

    systems: list[str]
    model: str = "layers"
    ranks: int = 2
    rounds: int = 7
    batch: int | None = None
    micro_batches: int = 1
    megabytes: int = 100

    def to_text(self) -> str:
        """For the command line of the ranks."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The inverse of `to_text`."""
        return cls(**json.loads(text))
