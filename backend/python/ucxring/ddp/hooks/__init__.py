"""Comm hooks: how `DistributedDataParallel` averages a bucket of gradients, with fewer bytes on the wire.

A hook is a function `hook(state, bucket) -> Future[Tensor]` as torch's own `register_comm_hook(state, hook)` takes it.
These work with torch's `DistributedDataParallel` as with ucxring's, over any backend. They return at once; the rest
happens when the network is done. All keep replicas bit-identical, and what is not finite on one rank is not finite on
any rank after a hook.

    model.register_comm_hook(None, bf16_compress)
    model.register_comm_hook(Int8State(), int8_compress)
"""

from ucxring.ddp.hooks.cast import bf16_compress, fp16_compress
from ucxring.ddp.hooks.int8 import Int8State, int8_compress
from ucxring.ddp.hooks.power_sgd import PowerSGDState, power_sgd_compress
from ucxring.ddp.hooks.top_k import TopKState, top_k_compress

__all__ = [
    "Int8State",
    "PowerSGDState",
    "TopKState",
    "bf16_compress",
    "fp16_compress",
    "int8_compress",
    "power_sgd_compress",
    "top_k_compress",
]

# None starts a collective whose place among the others could differ between ranks: ours need not wait for each other.
for _hook in (bf16_compress, fp16_compress, int8_compress, power_sgd_compress, top_k_compress):
    _hook.chains = False  # type: ignore[union-attr]
