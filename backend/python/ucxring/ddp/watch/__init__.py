"""The watchful eye of DistributedDataParallel: warnings with remedies, a report, a trace and a picture."""

from ucxring.ddp.watch.limits import Limits
from ucxring.ddp.watch.report import Report
from ucxring.ddp.watch.warner import DDPWarning
from ucxring.ddp.watch.watch import Watch

__all__ = ["DDPWarning", "Limits", "Report", "Watch"]
