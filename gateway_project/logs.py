"""Log lines as one JSON object each, so that no sender can forge a second line.

Lines about one run have ``run`` and ``session``, public ids. No line has a text of a person.
"""

import json
import logging
from datetime import UTC, datetime

from core.lib.log_ids import IDS


class JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON: time, level, logger, message; the run
    and the session that it is about, and the traceback, if any.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        ids = IDS.get()
        if ids is not None and ids.run:
            line["run"] = ids.run
        if ids is not None and ids.session:
            line["session"] = ids.session
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)
