"""``manage.py rotate_secrets``: new keys, nothing lost, nothing left under an old key."""

import os
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.utils import timezone

from allowlist import audit
from allowlist.models import AuditEntry
from channels_app.ops import credential_rotation
from channels_app.ops.doctor import work
from channels_app.push import keys as push_keys
from core.lib import encryption
from core.models import ChannelAccount, McpServer, ModelProvider, SearchProvider
from core.providers import catalogue
from gateway_project import home
from gateway_project import settings as product
from gateway_project.home import BASE_DIR
from gateway_project.processes import preflight, state

NAMES = ("SECRET_KEY", "SECRET_KEY_FILE", "GATEWAY_ENCRYPTION_KEYS", "GATEWAY_ENCRYPTION_KEYS_FILE")


def account(name: str, **secrets: str) -> ChannelAccount:
    """Return an account with secrets under the current keys."""
    return ChannelAccount.objects.create(
        channel="telegram", name=name, secrets=encryption.encrypt(secrets)
    )


@pytest.mark.django_db
class TestResealing:
    """The credentials in the database."""

    @pytest.fixture(autouse=True)
    def old(self, settings: Any) -> None:
        """Encrypt with an old key at first."""
        settings.GATEWAY_ENCRYPTION_KEYS = ["old"]

    def test_every_credential_comes_under_the_first_key_and_the_old_one_may_go(
        self, settings: Any
    ) -> None:
        account("a", token="1")
        account("b", token="2", webhook_secret="3")
        ChannelAccount.objects.create(channel="web", name="none")
        settings.GATEWAY_ENCRYPTION_KEYS = ["new", "old"]
        out = StringIO()
        call_command("rotate_secrets", stdout=out)
        assert "2 accounts and providers" in out.getvalue()
        settings.GATEWAY_ENCRYPTION_KEYS = ["new"]
        assert [row.open_secrets() for row in ChannelAccount.objects.order_by("id")] == [
            {"token": "1"},
            {"token": "2", "webhook_secret": "3"},
            {},
        ]
        assert AuditEntry.objects.filter(action="secrets.rotated").count() == 1
        assert audit.check().broken is None

    def test_keys_of_providers_come_under_the_first_key_too(self, settings: Any) -> None:
        """All or none of both tables; the doctor says what is under an old key."""
        sealed = encryption.encrypt({"key": "sk-1"})
        provider = ModelProvider.objects.create(name="Cloud", kind="openai", secrets=sealed)
        ModelProvider.objects.create(name="none", base_url="https://api.example.com/v1")
        search = SearchProvider.objects.create(name="Web", kind="brave", secrets=sealed)
        settings.GATEWAY_ENCRYPTION_KEYS = ["new", "old"]
        before = catalogue.version()
        for name in ("Cloud", "Web"):
            assert any(name in each.what for each in work.sealed_keys())
        assert credential_rotation.reencrypt_all(actor="t", now=timezone.now()) == 2
        assert catalogue.version() > before
        assert list(work.sealed_keys()) == []
        settings.GATEWAY_ENCRYPTION_KEYS = ["new"]
        search.refresh_from_db()
        assert search.open_secrets() == {"key": "sk-1"}
        provider.refresh_from_db()
        assert provider.open_secrets() == {"key": "sk-1"}
        entry = AuditEntry.objects.get(action="secrets.rotated")
        assert entry.data == {"accounts": 0, "providers": 2}
        settings.GATEWAY_ENCRYPTION_KEYS = ["lost"]
        assert any("cannot be opened" in each.what for each in work.sealed_keys())

    def test_v50_keys_of_mcp_servers_come_under_the_first_key_too(self, settings: Any) -> None:
        """[V50] The doctor says what is under an old key."""
        sealed = encryption.encrypt({"key": "k-1"})
        server = McpServer.objects.create(name="Shed", slug="shed", secrets=sealed)
        settings.GATEWAY_ENCRYPTION_KEYS = ["new", "old"]
        before = catalogue.version()
        assert any("MCP server Shed" in each.what for each in work.sealed_keys())
        assert credential_rotation.reencrypt_all(actor="t", now=timezone.now()) == 1
        assert catalogue.version() > before
        assert list(work.sealed_keys()) == []
        settings.GATEWAY_ENCRYPTION_KEYS = ["new"]
        server.refresh_from_db()
        assert server.open_secrets() == {"key": "k-1"}
        settings.GATEWAY_ENCRYPTION_KEYS = ["lost"]
        assert any("cannot be opened" in each.what for each in work.sealed_keys())

    def test_w58_the_key_of_web_push_comes_under_the_first_key_too(self, settings: Any) -> None:
        """The public key stays, to which browsers are bound; the doctor says what is under an old
        key.
        """
        public = push_keys.public_key()
        settings.GATEWAY_ENCRYPTION_KEYS = ["new", "old"]
        assert any("Web Push" in each.what for each in work.push())
        assert credential_rotation.reencrypt_all(actor="t", now=timezone.now()) == 1
        assert list(work.push()) == []
        settings.GATEWAY_ENCRYPTION_KEYS = ["new"]
        assert push_keys.public_key() == public
        settings.GATEWAY_ENCRYPTION_KEYS = ["lost"]
        assert any("cannot be opened" in each.what for each in work.push())

    def test_a_second_time_there_is_nothing_to_do(self, settings: Any) -> None:
        row = account("a", token="1")
        settings.GATEWAY_ENCRYPTION_KEYS = ["new", "old"]
        assert credential_rotation.reencrypt_all(actor="t", now=timezone.now()) == 1
        row.refresh_from_db()
        before = row.secrets
        assert credential_rotation.reencrypt_all(actor="t", now=timezone.now()) == 0
        row.refresh_from_db()
        assert row.secrets == before

    def test_one_that_no_key_opens_leaves_all_as_they_were(self, settings: Any) -> None:
        first = account("a", token="1")
        settings.GATEWAY_ENCRYPTION_KEYS = ["lost"]
        account("b", token="2")
        settings.GATEWAY_ENCRYPTION_KEYS = ["new", "old"]
        with pytest.raises(CommandError, match="nothing was changed"):
            call_command("rotate_secrets")
        assert ChannelAccount.objects.get(pk=first.pk).secrets == first.secrets

    def test_an_invalid_ciphertext_is_refused(self, settings: Any) -> None:
        foreign = Fernet(Fernet.generate_key()).encrypt(b"{}").decode()
        with pytest.raises(encryption.DecryptError):
            encryption.reencrypt(foreign)
        assert not encryption.is_current(foreign)
        assert encryption.reencrypt("") == ""


@pytest.fixture
def rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, db: None
) -> Callable[[str], list[str]]:
    """Return a home with keys in files, and a function that reads the keys of a name."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path / "home"))
    home.ensure()
    settings.GATEWAY_ENCRYPTION_KEYS = home.read_keys("encryption_key")
    return home.read_keys


def test_new_keys_replace_the_old_ones_and_the_credentials_open(
    rotated: Callable[[str], list[str]], settings: Any
) -> None:
    row = account("a", token="1")
    old_signing, old_encryption = rotated("secret_key"), rotated("encryption_key")
    call_command("rotate_secrets", "--new-keys", stdout=StringIO())
    assert len(rotated("secret_key")) == len(rotated("encryption_key")) == 1
    assert rotated("secret_key") != old_signing
    assert rotated("encryption_key") != old_encryption
    settings.GATEWAY_ENCRYPTION_KEYS = rotated("encryption_key")
    row.refresh_from_db()
    assert row.open_secrets() == {"token": "1"}
    for name in ("secret_key", "encryption_key"):
        assert home.secret_path(name).stat().st_mode & 0o077 == 0


def test_keep_sessions_leaves_the_old_signing_key_as_a_fallback(
    rotated: Callable[[str], list[str]],
) -> None:
    old = rotated("secret_key")
    call_command("rotate_secrets", "--new-keys", "--keep-sessions", stdout=StringIO())
    assert rotated("secret_key")[1:] == old
    call_command("rotate_secrets", "--new-keys", stdout=StringIO())
    assert len(rotated("secret_key")) == 1


def test_a_failure_in_the_middle_leaves_a_file_with_both_keys(
    rotated: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    row = account("a", token="1")
    old = rotated("encryption_key")

    def fail(**_: object) -> int:
        raise RuntimeError("power cut")

    monkeypatch.setattr(credential_rotation, "reencrypt_all", fail)
    with pytest.raises(RuntimeError):
        call_command("rotate_secrets", "--new-keys", stdout=StringIO())
    assert rotated("encryption_key")[1:] == old
    settings.GATEWAY_ENCRYPTION_KEYS = rotated("encryption_key")
    assert row.open_secrets() == {"token": "1"}


@pytest.mark.parametrize("name", NAMES)
def test_keys_of_the_environment_are_not_ours_to_make(
    name: str, rotated: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "x")
    before = rotated("secret_key")
    with pytest.raises(CommandError, match="comes from the environment"):
        call_command("rotate_secrets", "--new-keys")
    assert rotated("secret_key") == before


def test_new_keys_where_a_credential_cannot_be_opened_change_nothing(
    rotated: Callable[[str], list[str]], settings: Any
) -> None:
    """All stay signed in, as the command says."""
    own, settings.GATEWAY_ENCRYPTION_KEYS = settings.GATEWAY_ENCRYPTION_KEYS, ["lost"]
    account("a", token="1")
    settings.GATEWAY_ENCRYPTION_KEYS = own
    before = [rotated(name) for name in ("secret_key", "encryption_key")]
    with pytest.raises(CommandError, match="nothing was changed"):
        call_command("rotate_secrets", "--new-keys", stdout=StringIO())
    assert [rotated(name) for name in ("secret_key", "encryption_key")] == before


def test_new_keys_after_a_power_cut_that_left_the_state_of_a_gateway(
    rotated: Callable[[str], list[str]],
) -> None:
    """Another process has its pid now; in a container this one has."""
    preflight.run_folder(home.directory()).mkdir(parents=True)
    state.write(home=home.directory(), state=state.State(pid=os.getpid(), url="http://x"))
    before = rotated("secret_key")
    call_command("rotate_secrets", "--new-keys", stdout=StringIO())
    assert rotated("secret_key") != before


def test_not_while_the_gateway_starts(rotated: Callable[[str], list[str]]) -> None:
    """It has read the old keys, and no process of it is listed yet: its secrets could not be opened
    any more."""
    preflight.check_home(home.directory())
    before = [rotated(name) for name in ("secret_key", "encryption_key")]
    with (
        preflight.lock(home.directory()),
        pytest.raises(CommandError, match="Stop it first"),
    ):
        call_command("rotate_secrets", "--new-keys", stdout=StringIO())
    assert [rotated(name) for name in ("secret_key", "encryption_key")] == before


def test_keep_sessions_alone_is_a_mistake() -> None:
    with pytest.raises(CommandError, match="--new-keys"):
        call_command("rotate_secrets", "--keep-sessions")


def test_settings_read_the_rotated_keys(tmp_path: Path) -> None:
    """A process that starts afterwards signs with the new key and still accepts the old one."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "secret_key").write_text("new-key\nold-key")
    (folder / "encryption_key").write_text("e-new\ne-old")
    code = (
        "from gateway_project import settings as s;"
        "print(s.SECRET_KEY, s.SECRET_KEY_FALLBACKS, s.GATEWAY_ENCRYPTION_KEYS)"
    )
    env = {"PATH": os.environ["PATH"], "GATEWAY_HOME": str(tmp_path)}

    def shown(**more: str) -> str:
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, cwd=BASE_DIR, env=env | more, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert shown() == "new-key ['old-key'] ['e-new', 'e-old']"
    given = shown(SECRET_KEY="k", SECRET_KEY_FALLBACKS="a,b", GATEWAY_ENCRYPTION_KEYS="c,d")
    assert given == "k ['a', 'b'] ['c', 'd']"
    assert product.SECRET_KEY
