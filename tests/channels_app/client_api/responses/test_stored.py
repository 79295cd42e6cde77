"""Stored responses: how much a request may have them read, and what deleting leaves."""

from typing import Any

import pytest
from pytest_django import Settings

from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.client_api.responses import fields, stored
from channels_app.client_api.responses.items import MOST_REFERENCES
from core.lib.ids import public_id

Json = dict[str, Any]


class Outputs:
    """Stands for the responses of the database, and counts how often each is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        """Take the place of ``find`` and ``output_of``; each response has two items."""
        self.read: list[str] = []
        self.text = text
        monkeypatch.setattr(stored, "find", self.find)
        monkeypatch.setattr(stored, "output_of", self.output_of)

    def find(self, caller: Principal, name: str, **_: object) -> str:
        """Return the id of the run."""
        return name.removeprefix("resp_")

    def output_of(self, run: str) -> list[Json]:
        """Return the items of a run."""
        self.read.append(run)
        return [{"id": f"msg_{run}_{number}", "text": self.text} for number in (1, 2)]


def asked(*names: str) -> fields.Asked:
    """Return a request that refers to items."""
    given = [{"type": "item_reference", "id": name} for name in names]
    return fields.read({"model": "default", "input": given})


def test_w16_references_are_counted_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[W16] More than a request may have are 413."""
    outputs = Outputs(monkeypatch, "x")
    names = [f"msg_{public_id()}_1" for _ in range(MOST_REFERENCES + 1)]
    with pytest.raises(RefusedError) as caught:
        stored.known_items(Principal(), asked(*names))
    assert (caught.value.status, caught.value.field, outputs.read) == (413, "input", [])


def test_w16_a_response_is_read_once_for_all_its_items(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """[W16] Also for an item that it does not have; what references add up to is bounded."""
    outputs = Outputs(monkeypatch, "x" * 1000)
    one, two = public_id(), public_id()
    names = [f"msg_{one}_1", f"msg_{one}_9", f"msg_{one}_8", f"msg_{two}_2", f"msg_{one}_1"]
    known = stored.known_items(Principal(), asked(*names))
    assert set(known) == {f"msg_{one}_1", f"msg_{two}_2"}
    assert outputs.read == [one, two]
    settings.MAX_BODY_BYTES = 2000
    outputs.read.clear()
    with pytest.raises(RefusedError) as caught:
        stored.known_items(Principal(), asked(*names[:1] * 2, *names[3:4]))
    assert (caught.value.status, caught.value.field, outputs.read) == (413, "input", [one])
