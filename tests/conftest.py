"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says something of the machine, and of compiling at first use; not
# of the code.
settings.register_profile("lod", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lod")
