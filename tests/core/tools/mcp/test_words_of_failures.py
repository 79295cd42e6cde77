"""Failures of a sign-in at an MCP server: each sentence of them is in the catalogues."""

import ast
import inspect
from types import ModuleType

import pytest

from core.tools import phrases
from core.tools.mcp import client, transport
from core.tools.mcp.oauth import flow, sign_ins

BEGINNINGS = ("It ", "Its ", "The ", "An ")
# They are of calls of tools, which no page of a sign-in shows.
OF_CALLS = (
    "The tool asks for more input",
    "It wants people to sign in: choose OAuth",
    "It does not accept the sign-in",
    "It was still sending",
    "Its key cannot be opened",
)


def sentences(module: ModuleType) -> list[str]:
    """Return the sentences in the code of a module, with a 5 for each variable part."""
    found = []
    nodes = list(ast.walk(ast.parse(inspect.getsource(module))))
    docstrings = [each.value for each in nodes if isinstance(each, ast.Expr)]
    for node in nodes:
        if node in docstrings:
            continue
        pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
        if all(isinstance(each, ast.Constant | ast.FormattedValue) for each in pieces):
            said = "".join(
                str(each.value) if isinstance(each, ast.Constant) else "5" for each in pieces
            )
            found.append(said)
    wanted = (each for each in found if each.startswith(BEGINNINGS) and each.endswith("."))
    return [each for each in wanted if "\n" not in each and not each.startswith(OF_CALLS)]


@pytest.mark.parametrize(
    ("module", "least"), [(flow, 15), (sign_ins, 1), (client, 7), (transport, 4)]
)
def test_w66_a_failure_of_a_sign_in_is_said_in_each_language(
    module: ModuleType, least: int
) -> None:
    """[W66] The page of the sign-in shows it; owners and models get the English."""
    found = sentences(module)
    assert len(found) >= least
    assert [each for each in found if not phrases.is_translated(each)] == []
