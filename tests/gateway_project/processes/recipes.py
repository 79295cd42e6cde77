"""Read the recipes of docs/deploy: Containerfile, compose files, units, Kubernetes."""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gateway_project.home import BASE_DIR

DEPLOY = BASE_DIR / "docs" / "deploy"
INSTRUCTION = re.compile(r"^([A-Z]+)\s+(.*)$", re.DOTALL)
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


@dataclass
class Stage:
    """One ``FROM``: its instructions in order, and its environment."""

    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, name: str) -> list[str]:
        """Return the arguments of every instruction ``name``."""
        return [value for instruction, value in self.instructions if instruction == name]

    def one(self, name: str) -> str:
        """Return the argument of the one instruction ``name``."""
        (value,) = self.all(name)
        return value

    @property
    def env(self) -> dict[str, str]:
        """Return what ENV sets."""
        pairs = (each.partition("=") for value in self.all("ENV") for each in shlex.split(value))
        return {name: value for name, _, value in pairs}


def stages() -> list[Stage]:
    """Return the stages of the Containerfile."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE)
    found: list[Stage] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        match = INSTRUCTION.match(line)
        if match is None:
            assert not line.strip(), line
            continue
        if match[1] == "FROM":
            found.append(Stage())
        found[-1].instructions.append((match[1], match[2]))
    return found


def exec_form(value: str) -> list[str]:
    """Return the command of a CMD, also of one within a HEALTHCHECK."""
    command = json.loads(value[value.index("[") :])
    assert all(isinstance(each, str) for each in command)
    return list(command)


def compose(name: str, variables: dict[str, str]) -> dict[str, Any]:
    """Return the services of a compose file, variables filled in (``compose_file``)."""
    services = compose_file(name, variables)["services"]
    assert isinstance(services, dict)
    return services


def compose_file(name: str, variables: dict[str, str]) -> dict[str, Any]:
    """Return a compose file with ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?}`` filled in.

    A required variable that is missing raises KeyError.
    """

    def value_of(match: re.Match[str]) -> str:
        name, kind, default = match.groups()
        return variables.get(name, default) if kind == "-" else variables[name]

    def filled(node: object) -> object:
        if isinstance(node, str):
            return VARIABLE.sub(value_of, node).replace("$$", "$")
        if isinstance(node, list):
            return [filled(each) for each in node]
        if isinstance(node, dict):
            return {key: filled(value) for key, value in node.items()}
        return node

    file = filled(yaml.safe_load((DEPLOY / name).read_text()))
    assert isinstance(file, dict)
    return file


def documented_command(name: str) -> tuple[str, list[str]]:
    """Return the service and the command of the ``docker compose exec`` in a file's comments."""
    text = (DEPLOY / name).read_text()
    (found,) = re.findall(rf"docker compose -f docs/deploy/{name} exec (\S+) (.+)", text)
    return found[0], shlex.split(found[1])


def kubernetes() -> list[dict[str, Any]]:
    """Return the objects of the Kubernetes example."""
    return list(yaml.safe_load((DEPLOY / "kubernetes.yaml").read_text())["items"])


def unit(path: Path) -> dict[str, str]:
    """Return the settings of a systemd unit; of repeated ones the last."""
    lines = (line.partition("=") for line in path.read_text().splitlines() if "=" in line)
    return {name: value for name, _, value in lines if not name.startswith("#")}
