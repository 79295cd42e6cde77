"""aider, by its own scripting interface: one process for all journeys."""

import base64
import contextlib
import io
import os
from pathlib import Path
from typing import Any

import common

os.environ |= {"OPENAI_API_KEY": common.KEY, "OPENAI_API_BASE": f"{common.GATEWAY}/v1"}
from aider.coders import Coder, base_coder
from aider.io import InputOutput
from aider.models import Model

base_coder.RETRY_TIMEOUT = 0.1  # it would ask again for a minute
FILE = Path("greeting.py")


class Shown(InputOutput):
    """The terminal: keeps the errors."""

    def __init__(self) -> None:
        super().__init__(yes=True, pretty=False, fancy_input=False)
        self.errors: list[str] = []

    def tool_error(self, message: str = "", strip: bool = True) -> None:  # noqa: FBT002 - as there
        self.errors.append(message)


def coder(name: str = "default", key: str = common.KEY, **more: Any) -> Any:
    os.environ["OPENAI_API_KEY"] = key
    model = Model(f"openai/{name}", weak_model=f"openai/{name}")
    model.info = {**model.info, "supports_vision": True}
    model.extra_params = {"num_retries": 0}
    return Coder.create(
        main_model=model,
        io=Shown(),
        edit_format=more.pop("edit_format", "ask"),
        use_git=False,
        stream=False,
        map_tokens=0,
        suggest_shell_commands=False,
        **more,
    )


def ask(text: str, **more: Any) -> str:
    made = coder(**more)
    said = made.run(with_message=text, preproc=False)
    if not said and made.io.errors:
        raise RuntimeError("\n".join(made.io.errors))
    return str(said)


class Pieces(io.StringIO):
    """A terminal that keeps each piece."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def write(self, text: str) -> int:
        self.found.append(text)
        return len(text)


def stream() -> list[str]:
    made, pieces = coder(), Pieces()
    made.stream = True
    with contextlib.redirect_stdout(pieces):
        made.run(with_message=common.COUNT, preproc=False)
    return answer_of(pieces.found)


def answer_of(pieces: list[str]) -> list[str]:
    """Return the pieces of the answer, without what aider says around it."""
    first = next(at for at, piece in enumerate(pieces) if piece.startswith("one"))
    last = next(at for at, piece in enumerate(pieces) if piece.startswith("eight"))
    return pieces[first : last + 1]


def edit() -> str:
    FILE.write_text('print("hello")\n')
    ask("Change the greeting.", edit_format="diff", fnames=[str(FILE)])
    return FILE.read_text()


def image() -> str:
    Path("pixel.png").write_bytes(base64.b64decode(common.PIXEL.partition(",")[2]))
    return ask(common.PICTURE, fnames=["pixel.png"])


def remember() -> str:
    made = coder()
    made.run(with_message=common.MY_NAME, preproc=False)
    return str(made.run(with_message=common.WHAT_NAME, preproc=False))


common.main(
    {
        "first": lambda: ask(common.HELLO),
        "stream": stream,
        "tool": edit,
        "image": image,
        "remember": remember,
        "revoked": lambda: ask(common.HELLO, key=common.REVOKED),
        "budget": lambda: ask(common.HELLO, key=common.POOR),
        "down": lambda: ask(common.HELLO, name=common.DOWN),
    }
)
