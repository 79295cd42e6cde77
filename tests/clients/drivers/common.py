"""The facts that every driver needs, from its environment, and the loop over its journeys."""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

GATEWAY = os.environ["GATEWAY"]
CUT = os.environ["CUT"]  # the gateway behind a line that breaks once, in mid-answer
KEY = os.environ["KEY"]
POOR = os.environ["POOR"]  # the key of a person whose budget is used up
REVOKED = os.environ["REVOKED"]
NAME = os.environ["NAME"]  # of the client
DOWN = "down"  # an assistant whose model does not answer
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
HELLO = "Say hello."
COUNT = "Count to five."
WEATHER = "How is the weather in Paris?"
PICTURE = "What is in this picture?"
HANG = "Think for an hour."
MY_NAME = f"My name is {NAME}."
WHAT_NAME = "What is my name?"


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"It is sunny in {city}."


def main(journeys: dict[str, Callable[[], Any]]) -> None:
    """Do the journeys in order and print what came of them: a text, or ``{"error": …}``."""
    found = {}
    for name, journey in journeys.items():
        try:
            found[name] = journey()
        except Exception as error:  # noqa: BLE001 - the test judges it
            traceback.print_exc()
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(found) + "\n")
