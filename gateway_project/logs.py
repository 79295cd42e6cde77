"""Log lines: in a terminal for people, elsewhere as one JSON object each. No sender can forge one.

Lines about one run have ``run`` and ``session``, public ids. No line has a text of a person.
"""

import json
import logging
import re
from datetime import UTC, datetime

from core.lib.log_ids import IDS
from core.lib.text import visible, visible_line

MOST_CHARACTERS = 2000
OF_LINKS = re.compile(r"(/(?:sign-in|decide)/)[^\s/?#\"']+")


class JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON: time, level, logger, message; the run
    and the session that it is about, and the traceback, if any.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_tokens(record.getMessage()),
        }
        ids = IDS.get()
        if ids is not None and ids.run:
            line["run"] = ids.run
        if ids is not None and ids.session:
            line["session"] = ids.session
        if record.exc_info:
            line["traceback"] = without_tokens(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=True)


class TerminalFormatter(logging.Formatter):
    """Format a record for a person: the local time, level, logger and message on one line, the run
    if any; and the traceback below it, indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone()
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        said = visible_line(without_tokens(record.getMessage()), MOST_CHARACTERS)
        ids = IDS.get()
        run = f" [run {ids.run}]" if ids is not None and ids.run else ""
        line = f"{at:%H:%M:%S} {level}{record.name}: {said}{run}"
        if not record.exc_info:
            return line
        traceback = without_tokens(self.formatException(record.exc_info))
        return "\n    ".join([line, *visible(traceback).splitlines()])


def without_tokens(text: str) -> str:
    """Return a text without the tokens of links: Django logs refused addresses."""
    return OF_LINKS.sub(r"\1…", text)
