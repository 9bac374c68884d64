"""What holds for all tests."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A shell has the jobs it starts in the background ignore interrupts, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says something of the machine, and of compiling at first use; not
# of the code.
settings.register_profile("lod", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lod")
