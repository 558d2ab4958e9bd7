"""How torch's CPU threads wait for each other, and how many there are.

torch reads both from the environment when it is first imported, so this module is free of it and is called by the
package's `__init__`. What the user has set is left alone.
"""

from __future__ import annotations

import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def prepare() -> None:
    """Lets waiting threads sleep, and starts no more of them than a container's limit on CPU time feeds.

    By default a thread that waits for the others spins. Beside another busy process it then burns the time that the
    thread it waits for would need: `benchmarks/busy.py` measures what that costs.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    limit = cpu_limit()
    if limit is not None and limit < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(limit))


def cpu_limit() -> int | None:
    """How many CPUs' time a container may take, rounded up; None where there is no limit."""
    try:
        quota, period = (CGROUPS / "cpu.max").read_text(encoding="ascii").split()
        return None if quota == "max" else max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return None
