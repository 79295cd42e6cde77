"""The rows that go with a row when it is deleted, and their removal in parts.

Django's deletion reads all of them, in one transaction: after a year of messages it would hold up
everything else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import CASCADE, ForeignObjectRel, Model, QuerySet

from core.database.transactions import atomic_write

AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Dependent:
    """Rows of ``model``, which lead to the deleted row by each of ``paths``: names of foreign keys.

    Of longer ways to the same model there is none here: their rows go with others that are.
    """

    model: type[Model]
    paths: tuple[str, ...]

    @property
    def steps(self) -> int:
        """Return how many foreign keys lead to the deleted row."""
        return self.paths[0].count("__") + 1

    def rows(self, roots: Sequence[Model]) -> QuerySet[Any]:
        """Return the rows of one or more deleted rows."""
        keys = [each.pk for each in roots]
        rows = self.model._default_manager
        first, *others = (rows.filter(**{f"{path}__in": keys}) for path in self.paths)
        if not others:
            return first
        # Each way by its index: with an OR of them all rows of the table would be read.
        ids = (each.order_by().values("pk") for each in others)
        return rows.filter(pk__in=first.order_by().values("pk").union(*ids))


def of(root: type[Model]) -> tuple[Dependent, ...]:
    """Return what goes with a row of a model, the nearest first."""
    found: dict[type[Model], list[str]] = {root: [""]}
    nearest = list(found)
    while nearest:
        more: dict[type[Model], list[str]] = {}
        for model in nearest:
            for relation in cascading(model):
                if relation.related_model not in found:
                    name = relation.field.name
                    names = (f"{name}__{each}" if each else name for each in found[model])
                    more.setdefault(relation.related_model, []).extend(names)
        found |= more
        nearest = list(more)
    del found[root]
    return tuple(Dependent(model, tuple(paths)) for model, paths in found.items())


def cascading(model: type[Model]) -> Iterator[ForeignObjectRel]:
    """Yield the foreign keys whose rows go with a row of a model."""
    for each in model._meta.get_fields(include_hidden=True):
        if isinstance(each, ForeignObjectRel) and getattr(each, "on_delete", None) is CASCADE:
            yield each


def remove(rows: QuerySet[Any]) -> int:
    """Remove rows in short transactions; return how many."""
    done = 0
    while ids := list(rows.order_by().values_list("pk", flat=True)[:AT_ONCE]):
        going = rows.model._default_manager.filter(pk__in=ids).order_by("pk")
        with atomic_write():
            # As a worker that adds to a run: first the row, then those that belong to it.
            list(going.select_for_update(no_key=True).values_list("pk"))
            going.order_by().delete()
        done += len(ids)
    return done


def remove_before(root: Model) -> None:
    """Remove what goes with a row, in short transactions, the farthest first. The row stays."""
    for each in reversed(of(type(root))):
        remove(each.rows([root]))
