"""Settings of the test process: its own home, a real broker, and one of two real databases.

``TEST_DATABASE`` is ``sqlite`` (default) or ``postgres``. Every test process (pytest-xdist starts
several) has its own folder, ports and servers; ``conftest.py`` starts and removes them.
"""

import os
import secrets
import tempfile
from pathlib import Path

from gateway_project.processes import broker, listener

TEST_DATABASE = os.environ.get("TEST_DATABASE", "sqlite")
TEST_HOME = Path(tempfile.mkdtemp(prefix="latchkey-"))
TEST_HOME.chmod(0o711)  # PostgreSQL, which never runs as root, must reach its folder in it
BROKER_PORT = listener.free_port()
BROKER_PASSWORD = secrets.token_urlsafe(16)
POSTGRES_PORT = listener.free_port()
# The processes of `make test` copy one cluster (tests/templates.py).
POSTGRES_PASSWORD = os.environ.get("TEST_POSTGRES_PASSWORD") or secrets.token_urlsafe(16)
POSTGRES_URL = f"postgres://postgres:{POSTGRES_PASSWORD}@127.0.0.1:{POSTGRES_PORT}"

for name in [name for name in os.environ if name.startswith(("GATEWAY_", "LLM_"))]:
    del os.environ[name]
os.environ["GATEWAY_HOME"] = str(TEST_HOME)
os.environ["SECRET_KEY"] = secrets.token_urlsafe(48)
os.environ["REDIS_URL"] = broker.url(port=BROKER_PORT, password=BROKER_PASSWORD)
os.environ["DATABASE_URL"] = (
    f"{POSTGRES_URL}/gateway" if TEST_DATABASE == "postgres" else "sqlite://"
)

from gateway_project.settings import *  # noqa: E402, F403 - the environment above decides

if TEST_DATABASE == "sqlite":
    # A file, as in production: WAL and its one writer do not exist in memory.
    DATABASES["default"]["TEST"] = {"NAME": str(TEST_HOME / "test.sqlite3")}  # noqa: F405
# Nothing collects static files for tests of views; the gateway tests do it for real.
STORAGES["staticfiles"] = {  # noqa: F405
    "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
}
WHITENOISE_USE_FINDERS = True
# Keys of different tests have the same number, and their requests would add up.
RATE_PER_MINUTE_KEY = 0
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
(TEST_HOME / "static").mkdir()  # WhiteNoise warns of a folder that is not there
