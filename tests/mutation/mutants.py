"""The mutants of a module: mutmut's operators applied to its functions and its constants.

Only the operators are mutmut's; how mutants run is ours (``zygote``), for a fresh pytest session
with its servers and migrations costs more than the tests that kill a mutant.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import libcst
from libcst import matchers
from mutmut.mutation.file_mutation import Mutation, MutationVisitor, deep_replace
from mutmut.mutation.mutators import mutation_operators, operator_string
from mutmut.mutation.pragma_handling import IgnoredCode

from tests.mutation.identity import Identity

# Texts for people and for the log are not mutated: tests would only repeat the words.
SPEECH = matchers.Raise() | matchers.Call(
    func=matchers.Attribute(value=matchers.Name("logger") | matchers.Name("logging"))
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. ``source``: the changed function, or the whole module around a constant."""

    identity: Identity
    source: str
    is_constant: bool


def word(node: libcst.BaseString) -> Iterator[libcst.BaseString]:
    """Yield mutmut's first change of a string, for names and keys; sentences are left alone."""
    if isinstance(node, libcst.SimpleString) and " " not in node.value:
        yield from list(operator_string(node))[:1]


OPERATORS = [
    (kind, word if operator is operator_string else operator)
    for kind, operator in mutation_operators
]


def of_module(*, root: Path, path: str, names: Iterable[str] = ()) -> list[Mutant]:
    """Return the mutants of the module at ``path`` below ``root``, in its order.

    ``names``: qualified names of functions and constants; none: all of them.
    """
    module = libcst.parse_module((root / path).read_text(encoding="utf-8"))
    wanted = set(names)
    found = [*constants(path, module), *functions(path, bare(module))]
    return [each for each in found if not wanted or each.identity.function in wanted]


def bare(module: libcst.Module) -> libcst.Module:
    """Return ``module`` with undecorated functions: mutmut passes over those with decorators."""
    changed = matchers.replace(
        module, matchers.FunctionDef(), lambda node, _: node.with_changes(decorators=[])
    )
    assert isinstance(changed, libcst.Module)
    return changed


def functions(path: str, module: libcst.Module) -> Iterator[Mutant]:
    """Yield the mutants of the functions and methods of ``module``."""
    module, found = mutations(module)
    names = dict(qualified(module.body))
    seen: Counter[Identity] = Counter()
    for each in found:
        holder = each.contained_by_top_level_function
        if isinstance(holder, libcst.FunctionDef) and holder in names:
            yield from mutant(path, names[holder], holder, each, seen)


def constants(path: str, module: libcst.Module) -> Iterator[Mutant]:
    """Yield the mutants of the constants of ``module``; each is the whole module, changed."""
    module, found = mutations(module)
    late = read_late(module.code)
    seen: Counter[Identity] = Counter()
    for statement in module.body:
        inside = {id(node) for node in walk(statement)}
        name = constant_name(statement)
        for each in found:
            if name in late and id(each.original_node) in inside:
                yield from mutant(path, name, module, each, seen)


def mutant(
    path: str,
    name: str,
    tree: libcst.Module | libcst.FunctionDef,
    mutation: Mutation,
    seen: Counter[Identity],
) -> Iterator[Mutant]:
    """Yield ``mutation`` of ``tree`` under its name; nothing when Python cannot compile it."""
    changed = deep_replace(tree, mutation.original_node, mutation.mutated_node)
    assert isinstance(changed, libcst.Module | libcst.FunctionDef)
    before, after = code_of(tree), code_of(changed)
    try:
        compile(after, path, "exec")
    except SyntaxError:
        return
    first = Identity(path, name, *difference(before.splitlines(), after.splitlines()))
    seen[first] += 1
    identity = Identity(path, name, first.before, first.after, seen[first])
    yield Mutant(identity, after, is_constant=isinstance(tree, libcst.Module))


def mutations(module: libcst.Module) -> tuple[libcst.Module, list[Mutation]]:
    """Return ``module`` with metadata, and what mutmut's operators would change in it."""
    wrapper = libcst.MetadataWrapper(module)
    visitor = MutationVisitor(OPERATORS, IgnoredCode(set(), set(), set()))
    wrapper.visit(visitor)
    speech = {id(node) for said in matchers.findall(wrapper.module, SPEECH) for node in walk(said)}
    kept = [each for each in visitor.mutations if id(each.original_node) not in speech]
    return wrapper.module, kept


def qualified(
    body: Sequence[libcst.CSTNode], prefix: str = ""
) -> Iterator[tuple[libcst.FunctionDef, str]]:
    """Yield the functions and methods below ``body`` with their qualified names."""
    for node in body:
        if isinstance(node, libcst.FunctionDef):
            yield node, prefix + node.name.value
        elif isinstance(node, libcst.ClassDef):
            yield from qualified(node.body.body, f"{prefix}{node.name.value}.")


def constant_name(statement: libcst.CSTNode) -> str:
    """Return the name that ``statement`` assigns, when it is a constant's; else empty."""
    if not isinstance(statement, libcst.SimpleStatementLine):
        return ""
    (first, *_) = statement.body
    if not isinstance(first, libcst.Assign):
        return ""
    target = first.targets[0].target
    return target.value if isinstance(target, libcst.Name) and target.value.isupper() else ""


def read_late(code: str) -> set[str]:
    """Return the names that only bodies of functions read: later changes of them take effect.

    Defaults and class attributes keep the value of the import; such constants are not mutated.
    """
    tree = ast.parse(code)
    bodies = [
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        for inner in ast.walk(statement)
    ]
    inside = {id(node) for node in bodies}
    early = {node.id for node in loads(ast.walk(tree)) if id(node) not in inside}
    return {node.id for node in loads(bodies)} - early


def loads(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """Yield the names that are read among ``nodes``."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node


def walk(node: libcst.CSTNode) -> Iterator[libcst.CSTNode]:
    """Yield ``node`` and every node below it."""
    yield node
    for child in node.children:
        yield from walk(child)


def code_of(tree: libcst.Module | libcst.FunctionDef) -> str:
    """Return the Python text of ``tree``."""
    return str(tree.code if isinstance(tree, libcst.Module) else libcst.Module([tree]).code)


def difference(before: list[str], after: list[str]) -> tuple[str, str]:
    """Return the lines that only one of the two texts has, each side on one line."""
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changed = [block for block in blocks if block[0] != "equal"]
    old = [line.strip() for _, start, end, _, _ in changed for line in before[start:end]]
    new = [line.strip() for _, _, _, start, end in changed for line in after[start:end]]
    return " ".join(old), " ".join(new)
