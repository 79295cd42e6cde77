"""The identity of a mutant, and the justified survivors: ``survivors.toml``."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

SURVIVORS = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True, slots=True)
class Identity:
    """A mutant by its text: no line numbers, so that it stays itself when the file changes.

    ``function``: the qualified name, or that of a constant. ``before`` and ``after``: the lines
    that differ. ``number`` counts equal changes of one function from 1.
    """

    path: str
    function: str
    before: str
    after: str
    number: int = 1

    def __str__(self) -> str:
        """Format for display."""
        again = f" (no. {self.number})" if self.number > 1 else ""
        return f"{self.path} {self.function}{again}\n    - {self.before}\n    + {self.after}"

    def stanza(self, why: str) -> str:
        """Return this mutant in the form of ``survivors.toml``; JSON's strings are TOML's."""
        number = f"number = {self.number}\n" if self.number > 1 else ""
        texts = {name: getattr(self, name) for name in ("path", "function", "before", "after")}
        lines = "".join(
            f"{name} = {json.dumps(text, ensure_ascii=False)}\n" for name, text in texts.items()
        )
        return f"[[survivor]]\n{lines}{number}why = {json.dumps(why, ensure_ascii=False)}\n"


def justified() -> dict[Identity, str]:
    """Return the justified survivors, each with its reason."""
    rows = tomllib.loads(SURVIVORS.read_text(encoding="utf-8")).get("survivor", [])
    return {
        Identity(
            path=row["path"],
            function=row["function"],
            before=row["before"],
            after=row["after"],
            number=row.get("number", 1),
        ): row["why"]
        for row in rows
    }
