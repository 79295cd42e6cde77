"""Wiring: settings, URLs, the ASGI application, Celery, and the processes of one machine."""

import sys

from core.lib import tracing

# Where OpenTelemetry's SDK is installed, redis-py loads its part for metrics, and uses none of it:
# 70 ms and 2 MB in each process. None in this place lets an import fail as if it were missing.
if not tracing.is_on():
    sys.modules.setdefault("opentelemetry.sdk.metrics", None)  # type: ignore[arg-type]
