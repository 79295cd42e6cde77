"""The cost of Markdown: µs per KB against another converter in the same run, and the worst inputs.

The other one (telegramify-markdown, a Rust parser underneath) is in the dependency group ``bench``;
without it only our own numbers are printed.
"""

import importlib
import time
from collections.abc import Callable, Sequence

from core import markdown
from tests.core.markdown import texts
from tests.core.markdown.checks import markdown_v2

ROUNDS = 30
ONE_MESSAGE = 4_000  # characters of each text
SIZE = 20_000  # characters of an input that is meant to hurt
UNITS = (
    "[",
    "*",
    "`",
    "> ",
    "- ",
    "[a](",
    "*a **b ",
    "_a __b",
    "~~a~~~",
    "$a$",
    "<a ",
    "&",
    "a |\n",
    "#\n",
    "- > a\n",
    "[a]: b\n",
    "word *em* `c` ",
    "  - x\n",
    "`a``b```c",
    "![a](b)",
    "\\*",
    " ",
    "https://a.b/c_d*e ",
)

Convert = Callable[[str], object]


def measure() -> str:
    """Return a report in plain text."""
    samples = [text[:ONE_MESSAGE] for _, text in texts.descriptions(content_type="text/markdown")]
    functions: dict[str, Convert] = {
        "to_markdown_v2": markdown_v2,
        "to_telegram": markdown.to_telegram,
        "markdown_to_whatsapp": markdown.markdown_to_whatsapp,
        "markdown_to_plain": markdown.markdown_to_plain,
    }
    try:
        other = importlib.import_module("telegramify_markdown").markdownify
    except ImportError:
        other = None
    if other is not None:
        functions["telegramify-markdown"] = other
    costs = best_of(functions, samples)
    lines = [f"{name:24} {cost:6.0f} µs/KB" for name, cost in costs.items()]
    if other is not None:
        ratio = costs["to_markdown_v2"] / costs["telegramify-markdown"]
        lines.append(f"{'ratio':24} {ratio:6.2f} (goal: at most 1)")
    milliseconds, unit = worst()
    lines.append(f"{'worst of 20 kB':24} {milliseconds:6.0f} ms for {unit!r} (goal: at most 200)")
    return "\n".join(lines) + "\n"


def best_of(functions: dict[str, Convert], samples: Sequence[str]) -> dict[str, float]:
    """Return CPU µs per 1,000 characters, the best round of each; in turns, because machines are
    noisy."""
    kilobytes = sum(map(len, samples)) / 1000
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for name, function in functions.items():
            began = time.process_time()
            for sample in samples:
                function(sample)
            best[name] = min(best[name], (time.process_time() - began) * 1e6 / kilobytes)
    return best


def worst() -> tuple[float, str]:
    """Return ms and unit of the slowest of the inputs that repeat one unit, or nest it."""
    inputs = {unit: (unit * (SIZE // len(unit) + 1))[:SIZE] for unit in UNITS}
    inputs["nested lists"] = "".join("  " * level + "- x\n" for level in range(200))
    inputs["nested emphasis"] = "*a " * (SIZE // 6) + "b* " * (SIZE // 6)
    inputs["nested brackets"] = "[" * (SIZE // 2) + "]" * (SIZE // 2)
    found = (0.0, "")
    for name, source in inputs.items():
        began = time.process_time()
        markdown_v2(source)
        found = max(found, ((time.process_time() - began) * 1000, name))
    return found
