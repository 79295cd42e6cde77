"""The recipes of docs/deploy say what our processes need: image, compose, systemd, Kubernetes."""

import importlib.util
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from core import VERSION
from gateway_project.home import BASE_DIR
from gateway_project.processes.web import GRACEFUL_SECONDS
from tests.gateway_project.processes import recipes

UNITS = sorted(recipes.DEPLOY.glob("*.service"))
PROBED = ("/healthz", "/readyz")


def test_x62_the_image_has_all_packages_and_runs_without_rights() -> None:
    """Every folder of the wheel is copied, nothing else of the clone; the last user is a number."""
    build, image = recipes.stages()
    hatch = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["tool"]["hatch"]
    wheel = hatch["build"]["targets"]["wheel"]
    copied = {name for value in build.all("COPY") for name in value.split()[:-1]}
    assert copied == {
        *wheel["packages"], *wheel["force-include"],
        "pyproject.toml", "uv.lock", "manage.py", "LICENSE",
    }  # fmt: skip
    assert int(image.one("USER")) > 0
    order = [name for name, _ in image.instructions]
    assert order.index("USER") > max(i for i, name in enumerate(order) if name in {"RUN", "COPY"})
    assert image.one("VOLUME") == image.env["GATEWAY_HOME"]
    assert image.one("STOPSIGNAL") == "SIGTERM"
    assert any(run.startswith("uv sync --locked") for run in build.all("RUN"))


@pytest.mark.parametrize("name", ["compose.yaml", "compose.scale.yaml"])
def test_x63_containers_of_the_gateway_have_a_read_only_root(name: str) -> None:
    """Only the volume and /tmp are written; no capability, and time to stop."""
    variables = dict.fromkeys(
        ("GATEWAY_NAME", "POSTGRES_PASSWORD", "REDIS_PASSWORD", "SECRET_KEY", "TLS_KEY",
         "GATEWAY_ENCRYPTION_KEYS", "TLS_CERTIFICATE"), "x",
    )  # fmt: skip
    ours = [
        each for each in recipes.compose(name, variables).values() if each["image"] == "latchkey"
    ]
    assert len(ours) == (1 if name == "compose.yaml" else 4)
    for service in ours:
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["tmpfs"] == ["/tmp"]  # noqa: S108 - the container's
        assert service["volumes"] == ["state:/var/lib/latchkey"]
        assert int(service["stop_grace_period"].removesuffix("s")) > 2 * GRACEFUL_SECONDS


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_x64_units_are_hardened(path: Path) -> None:
    """A unit writes to its own folder only, gains no rights, and has time to stop."""
    unit = recipes.unit(path)
    assert unit["ReadWritePaths"] == "/var/lib/latchkey"
    assert unit["ProtectSystem"] == "strict"
    assert unit["CapabilityBoundingSet"] == ""
    assert unit["SystemCallFilter"] == "@system-service"
    assert unit["UMask"] == "0077"
    assert int(unit["TimeoutStopSec"]) > 2 * GRACEFUL_SECONDS
    for name in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictNamespaces"):
        assert unit[name] == "yes"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not here")
def test_x64_systemd_accepts_the_units(path: Path, tmp_path: Path) -> None:
    """``systemd-analyze verify`` has no complaint, with a program of this machine to start."""
    text = path.read_text().replace("/opt/latchkey/.venv/bin/python", "/bin/true")
    copy = tmp_path / path.name
    copy.write_text(text.replace("WorkingDirectory=/opt/latchkey", "WorkingDirectory=/"))
    told = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in told.stderr.splitlines() if path.stem.rstrip("@") in line]
    assert complaints == []


def test_x65_pods_are_probed_and_stop_gracefully() -> None:
    """Probes at paths that exist; more time to stop than the wait and our own drain take."""
    objects = recipes.kubernetes()
    deployments = [each for each in objects if each["kind"] == "Deployment"]
    assert {each["metadata"]["name"] for each in deployments} == {
        "latchkey-web", "latchkey-runs", "latchkey-long"
    }  # fmt: skip
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == int(recipes.stages()[1].one("USER"))
        assert pod["enableServiceLinks"] is False
        if deployment["metadata"]["name"] == "latchkey-long":
            assert pod["shareProcessNamespace"] is True  # as ``init`` of the compose files
        assert pod["terminationGracePeriodSeconds"] > 5 + 2 * GRACEFUL_SECONDS
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]
            assert container["image"].endswith(f":{VERSION}")
            assert importlib.util.find_spec(container["command"][2]) is not None
    web = next(
        each["spec"]["template"]["spec"]["containers"][0]
        for each in deployments
        if each["metadata"]["name"] == "latchkey-web"
    )
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    assert [web[each]["httpGet"]["path"] for each in probes] == ["/healthz", *PROBED]
    assert web["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]


def test_x65_every_setting_of_the_recipes_exists() -> None:
    """Names of variables in compose files and manifests stand in docs/settings.md."""
    known = (BASE_DIR / "docs" / "settings.md").read_text()
    texts = "".join(path.read_text() for path in recipes.DEPLOY.glob("*.yaml"))
    names = set(re.findall(r"\b(?:GATEWAY|LLM|DATABASE|REDIS|SECRET)_[A-Z_]+\b", texts))
    outside = {"GATEWAY_NAME", "REDIS_PASSWORD"}  # of the compose file itself
    assert sorted(name for name in names - outside if f"`{name}`" not in known) == []


def test_x65_static_files_of_the_last_version_go_before_those_of_this_one() -> None:
    """Django keeps a copy that is younger than the file, as after a rollback, and with packages
    whose files have the time of their release."""
    files = [*recipes.DEPLOY.glob("*.yaml"), BASE_DIR / "docs" / "deploy.md"]
    texts = [re.sub(r"[\",]", "", path.read_text()) for path in files]
    found = [each for text in texts for each in re.findall(r"collectstatic --\w+[^&\]`]*", text)]
    assert len(found) == 4
    assert all("--noinput --clear" in each for each in found)


def test_x62_the_image_can_be_read_by_its_user() -> None:
    """Also when the clone was made under the umask 077: COPY keeps modes."""
    build, _ = recipes.stages()
    assert build.instructions[-1] == ("RUN", "chmod -R a+rX .")
