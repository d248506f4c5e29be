"""Events: log records with httpware's logger names, and events on the current OpenTelemetry span."""

from __future__ import annotations

import logging
import re
import sys
from typing import Any, Final

RETRY: Final = logging.getLogger("httpware.retry")
BULKHEAD: Final = logging.getLogger("httpware.bulkhead")
CIRCUIT: Final = logging.getLogger("httpware.circuit_breaker")
TIMEOUT: Final = logging.getLogger("httpware.timeout")

_USERINFO: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@")
_VALUE: Final = re.compile(r"=[^&#]*")


def redacted(url: str) -> str:
    """Returns the URL without user and password, and without the values of query and fragment."""
    url = _USERINFO.sub(r"\1", url)
    start = min((at for at in (url.find("?"), url.find("#")) if at >= 0), default=len(url))
    return url[:start] + _VALUE.sub("=REDACTED", url[start:])


def emit(
    logger: logging.Logger,
    event: str,
    message: str,
    request: Any,
    level: int = logging.WARNING,
    **attributes: Any,
) -> None:
    """Emits an event. A failing handler, filter or exporter does not break the request."""
    attributes |= {"method": str(request.method), "url": redacted(str(request.url))}
    try:
        logger.log(level, message, extra={**attributes, "event": event})
    except Exception:  # noqa: S110 - a failing listener must not break a call
        pass
    trace = sys.modules.get("opentelemetry.trace")  # a program that traces has imported it
    if trace is not None:
        try:
            said = {key: value for key, value in attributes.items() if value is not None}
            trace.get_current_span().add_event(event, attributes=said)
        except Exception:  # noqa: S110
            pass
