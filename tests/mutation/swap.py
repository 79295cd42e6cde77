"""Replace a function's code with a mutant's in place, so that importers run the mutant too."""

import __future__

import gc
import sys
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any


class NoModuleError(Exception):
    """The changed module cannot be imported: every test of it fails."""


Living = dict[tuple[str, str], list[FunctionType]]


def living(paths: set[str]) -> Living:
    """Return the function objects of the files ``paths`` by file and qualified name, behind
    whatever decorates them. Once, before any fork: looking at all objects makes a fork copy all
    memory."""
    found: Living = defaultdict(list)
    for each in gc.get_objects():
        # Not isinstance: a lazy object would go to the database to say what it is.
        if type(each) is FunctionType and each.__code__.co_filename in paths:
            found[each.__code__.co_filename, each.__code__.co_qualname].append(each)
    return found


def put(*, path: str, source: str, into: Sequence[FunctionType]) -> None:
    """Give ``into``, one function of the file ``path``, the code of ``source``: its definition
    without decorators."""
    flags = __future__.annotations.compiler_flag
    namespace = dict(vars(module_of(path)))
    name = into[0].__name__
    if into[0].__code__.co_freevars:  # ``super()`` reads the class from around its method
        # A mutant may not call it any more, but code with another number of cells does not fit.
        inner = textwrap.indent(f"{source}\n    if 0: __class__\nreturn {name}", "    ")
        source = f"def around(__class__):\n{inner}\n{name} = around(None)"
    execute(compile(source, path, "exec", flags=flags), namespace)
    changed = namespace[name]
    for live in into:
        live.__code__ = changed.__code__
        live.__defaults__ = changed.__defaults__
        live.__kwdefaults__ = changed.__kwdefaults__


def put_constant(*, path: str, name: str, source: str) -> None:
    """Give the constant ``name`` of the file ``path`` the value it has in ``source``, its whole
    module, wherever it was imported to."""
    module = module_of(path)
    old = vars(module)[name]
    namespace = {"__name__": module.__name__, "__file__": path}
    execute(compile(source, path, "exec", dont_inherit=True), namespace)
    for each in list(filter(None, sys.modules.values())):  # None: may not be imported
        if vars(each).get(name) is old:
            setattr(each, name, namespace[name])


def execute(code: CodeType, namespace: dict[str, Any]) -> None:
    """Execute the text of a mutant. Raises NoModuleError when that fails, as its import would."""
    try:
        exec(code, namespace)  # noqa: S102 - our own mutant
    except Exception as error:
        raise NoModuleError from error


def module_of(path: str) -> ModuleType:
    """Return the module that was imported from ``path``."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == path:
            return module
    raise LookupError(path)
