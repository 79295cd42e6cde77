"""The directions of imports as a figure, made from the import contracts of pyproject.toml.

``python -m tests.architecture.figure`` prints it; ``python -m tests.architecture`` writes it into
docs/architecture.md.
"""

import sys
from itertools import pairwise

from tests.architecture import contracts
from tests.architecture.contracts import Layers


def nodes(layers: Layers) -> list[str]:
    """Return a box for each floor, and an arrow to the floor below it."""
    ids = [f"{layers.container}_{number}" for number in range(len(layers.floors))]
    boxes = [
        f'    {name}["{" · ".join(floor)}"]' for name, floor in zip(ids, layers.floors, strict=True)
    ]
    arrows = [f"    {one} --> {other}" for one, other in pairwise(ids)]
    return boxes + arrows


def mermaid() -> str:
    """Return the figure: an arrow means "may import"; a floor may import every floor below."""
    by_container = {each.container: each for each in contracts.layers()}
    top = [name for floor in by_container.pop("").floors for name in floor]
    lines = ["flowchart TD"]
    for name in top:
        inner = by_container.get(name)
        if inner is None:
            lines.append(f"  {name}")
        else:
            lines += [f"  subgraph {name}", *nodes(inner), "  end"]
    lines += [f"  {one} --> {other}" for one, other in pairwise(top)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(mermaid() + "\n")
