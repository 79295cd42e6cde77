"""All settings of the gateway, from the environment (12-factor). ``docs/settings.md`` lists them.

Settings that an owner changes while the gateway runs are in the admin.
"""

import sys
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from gateway_project import databases, home
from gateway_project import environment as env
from gateway_project.admin_look import UNFOLD as UNFOLD
from gateway_project.processes import broker

BASE_DIR: Path = home.BASE_DIR
GATEWAY_HOME: Path = home.directory()

DEBUG = env.switch("DEBUG", default=False)
_signing_keys = home.read_keys("secret_key")
_given_key = env.text("SECRET_KEY", exact=True)
SECRET_KEY = _given_key or next(iter(_signing_keys), "")
# Older keys that still open sessions and links: `manage.py rotate_secrets --keep-sessions`.
SECRET_KEY_FALLBACKS: list[str] = (
    env.words("SECRET_KEY_FALLBACKS") if _given_key else _signing_keys[1:]
)
if not SECRET_KEY:
    raise ImproperlyConfigured("SECRET_KEY is not set: set it, or run `manage.py` once to make one")
GATEWAY_ENCRYPTION_KEYS: list[str] = (
    env.words("GATEWAY_ENCRYPTION_KEYS") or home.read_keys("encryption_key") or [SECRET_KEY]
)

# The public address. Behind TLS, GATEWAY_URL starts with https:// and cookies become Secure.
GATEWAY_PORT: int = env.port("GATEWAY_PORT", 8000)
GATEWAY_URL: str = env.origin("GATEWAY_URL", f"http://127.0.0.1:{GATEWAY_PORT or 8000}")
GATEWAY_HTTPS: bool = GATEWAY_URL.startswith("https://")
GATEWAY_HOST: str = env.text("GATEWAY_HOST", "127.0.0.1")
GATEWAY_SERVER: str = env.choice("GATEWAY_SERVER", "uvicorn", "daphne")
# The proxy in front sets X-Forwarded-For/-Proto; trusted only when it is named here.
GATEWAY_TRUSTED_PROXIES: list[str] = env.proxies("GATEWAY_TRUSTED_PROXIES")
ALLOWED_HOSTS: list[str] = [
    *env.hosts("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]"),
    env.host_of(GATEWAY_URL),
]
CSRF_TRUSTED_ORIGINS: list[str] = [GATEWAY_URL]

# The apps of pages and of /api. A worker serves neither: without them it starts 0.5 s sooner and
# takes 20 MB less. It must not delete users: only with the admin's tables known does that cascade.
PAGE_APPS = [
    "unfold.apps.BasicAppConfig",
    "gateway_project.admin_config.GatewayAdminConfig",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "rest_framework",
    "drf_spectacular",
]
GATEWAY_PROCESS: str = env.choice("GATEWAY_PROCESS", "web", "worker")
# Whose migrations belong to a version of the gateway.
OWN_APPS = ["core", "allowlist", "channels_app", "gateway_project"]
INSTALLED_APPS = [
    # Daphne's app only serves `runserver`; elsewhere it costs 0.8 s and 27 MB (Twisted).
    *(["daphne"] if sys.argv[1:2] == ["runserver"] else []),
    *(PAGE_APPS if GATEWAY_PROCESS == "web" else []),
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "channels",
    *OWN_APPS,
]

MIDDLEWARE = [
    "channels_app.asgi.middleware.SecurityHeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "channels_app.asgi.language.LanguageMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
    "channels_app.asgi.middleware.DatabaseAwayMiddleware",
]

ROOT_URLCONF = "gateway_project.urls"
ASGI_APPLICATION = "gateway_project.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [home.RESOURCES / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
FORM_RENDERER = "core.lib.form_renderer.FormRenderer"

DATABASES = {
    "default": databases.settings_of(env.text("DATABASE_URL", "sqlite://"), home=GATEWAY_HOME)
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Threads of one web or runs process for occasional queries; each keeps a connection. One more is
# for batches, one for pages (web) or events (runs).
# A server counts connections; SQLite does not, and its requests wait for one writer.
GATEWAY_DATABASE_THREADS: int = env.number(
    "GATEWAY_DATABASE_THREADS",
    2 if DATABASES["default"]["ENGINE"].endswith("postgresql") else 8,
    minimum=1,
)
# PostgreSQL prepares each statement once a connection; off: for a pooler that hands connections out
# by transaction and does not support prepared statements (PgBouncer before 1.21).
GATEWAY_DATABASE_PREPARES: bool = env.switch("GATEWAY_DATABASE_PREPARES", default=True)

# Empty: `manage.py up` starts an embedded broker; commands beside it find it in GATEWAY_HOME.
REDIS_URL: str = env.broker("REDIS_URL", broker.embedded, in_production=GATEWAY_HTTPS)
# Beside a running one, or before its first start.
REDIS_IS_EMBEDDED: bool = not env.text("REDIS_URL")
# The dotted path of our Celery application; resolved when the first wake-up is sent.
CELERY_APPLICATION = "gateway_project.celery.app"
CELERY_BROKER_URL = REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_timeout": 2.0,
    "socket_connect_timeout": 2.0,
    "max_retries": 1,
}
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_DEFAULT_QUEUE = "runs"
CELERY_TASK_ROUTES = {"core.long.*": {"queue": "long"}}

AUTH_USER_MODEL = "core.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AXES_FAILURE_LIMIT: int = env.number("WRONG_PASSWORDS_PER_HOUR", 20, minimum=1)
AXES_COOLOFF_TIME = 1
AXES_VERBOSE = False
AXES_DISABLE_ACCESS_LOG = True  # sign-ins are in our audit
AXES_ENABLE_ADMIN = False  # allowlist.admin shows lockouts
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_CALLABLE = "channels_app.webchat.views.locked_out"
LOGIN_URL = "/sign-in"
LOGIN_REDIRECT_URL = "/"

# Django's defaults stay: cookies with SameSite=Lax, the session's HttpOnly; nosniff; no framing;
# referrer and opener of the same origin only.
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = GATEWAY_HTTPS
CSRF_COOKIE_HTTPONLY = True  # our script reads the token of the page, not the cookie
SESSION_ENGINE = "channels_app.asgi.session_store"
SESSION_COOKIE_NAME = "latchkey_session"
SESSION_COOKIE_AGE = 60 * 60 * 24 * 30
SECURE_SSL_REDIRECT = GATEWAY_HTTPS
SECURE_HSTS_SECONDS = 60 * 60 * 24 * 365 if GATEWAY_HTTPS else 0
# These also bind the other hosts of the owner's domain, for a year: off unless the owner asks.
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.switch("HSTS_INCLUDE_SUBDOMAINS", default=False)
SECURE_HSTS_PRELOAD = env.switch("HSTS_PRELOAD", default=False)
# The two checks that ask for the settings above.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if GATEWAY_TRUSTED_PROXIES and GATEWAY_HTTPS else None
)
DATA_UPLOAD_MAX_MEMORY_SIZE: int = env.number("MAX_FORM_BYTES", 2 * 1024 * 1024, minimum=1024)

LANGUAGE_CODE = "en"
# The interface's languages, by their own names: catalogues under locale/ (docs/languages.md).
LANGUAGES = [
    ("en", "English"),
    ("de", "Deutsch"),
    ("fr", "Français"),
    ("es", "Español"),
    ("zh-hans", "简体中文"),
    ("ja", "日本語"),
]
LOCALE_PATHS = [home.RESOURCES / "locale"]
TIME_ZONE = env.zone("TIME_ZONE", "UTC")
STATIC_URL = "/static/"
STATIC_ROOT = GATEWAY_HOME / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "gateway_project.static_files.StaticFiles"},
}
WHITENOISE_USE_FINDERS = DEBUG

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "channels_app.api.authentication.ApiKeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["channels_app.api.parsers.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "channels_app.api.errors.handle",
    "DEFAULT_PAGINATION_CLASS": "channels_app.api.pages.Pages",
    "PAGE_SIZE": 50,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Latchkey",
    "DESCRIPTION": (
        "Sessions, messages, runs, files, schedules and unknown requests of an assistant gateway."
    ),
    "VERSION": "1",
    "LICENSE": {"name": "MIT", "url": "https://opensource.org/license/mit"},
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "channels_app.api.endpoint_operations.document",
    ],
}

# The model. GATEWAY_MODEL_URL empty: `manage.py up` starts the embedded model and sets it.
LLM_PROVIDER: str = env.text("LLM_PROVIDER", "openai-compatible")
LLM_BASE_URL: str = env.server("GATEWAY_MODEL_URL")
LLM_API_KEY: str = env.renamed("GATEWAY_MODEL_KEY")
LLM_MODEL: str = env.renamed("GATEWAY_MODEL", "default")
GATEWAY_OLD_NAMES: dict[str, str] = env.old_names()
LLM_SCRIPT: str = env.text("LLM_SCRIPT")
LLM_CONTEXT_TOKENS: int = env.number("LLM_CONTEXT_TOKENS", 8192, minimum=512)
LLM_MAX_OUTPUT_TOKENS: int = env.number("LLM_MAX_OUTPUT_TOKENS", 1024, minimum=16)
LLM_FIRST_TOKEN_SECONDS: int = env.number("LLM_FIRST_TOKEN_SECONDS", 120, minimum=1)
LLM_IDLE_SECONDS: int = env.number("LLM_IDLE_SECONDS", 60, minimum=1)
LLM_SYSTEM_PROMPT: str = env.text("LLM_SYSTEM_PROMPT")
LLM_IS_EMBEDDED: bool = env.switch("LLM_IS_EMBEDDED", default=False)
# Media to text. Empty: pictures are named but not described; speech is transcribed on this machine
# when the extra `voice` is installed.
VISION_MODEL: str = env.text("VISION_MODEL")
LLM_IMAGES: str = env.choice("LLM_IMAGES", "auto", "yes", "no")
TRANSCRIPTION_MODEL: str = env.text("TRANSCRIPTION_MODEL")
TRANSCRIPTION_BASE_URL: str = env.server("TRANSCRIPTION_BASE_URL")
TRANSCRIPTION_API_KEY: str = env.text("TRANSCRIPTION_API_KEY")
AGENT_MAX_STEPS: int = env.number("AGENT_MAX_STEPS", 12, minimum=1)
AGENT_RUN_SECONDS: int = env.number("AGENT_RUN_SECONDS", 900, minimum=1)

# Long tasks: how many of a worker at once; the limits of a job in seconds and megabytes; the
# lifetime of links.
LONG_WORKERS: int = env.number("LONG_WORKERS", 2, minimum=1)
JOB_SECONDS: int = env.number("JOB_SECONDS", 1800, minimum=10)
JOB_MEMORY_MEGABYTES: int = env.number("JOB_MEMORY_MEGABYTES", 600, minimum=100)
FILE_LINK_DAYS: int = env.number("FILE_LINK_DAYS", 7, minimum=1)
DOCUMENT_MEGABYTES: int = env.number("DOCUMENT_MEGABYTES", 50, minimum=1)
# The storage quota of a user's uploads; 0: no limit.
MAX_FILE_MEGABYTES_PER_USER: int = env.number("MAX_FILE_MEGABYTES_PER_USER", 2000)
MAX_FILES_PER_USER: int = env.number("MAX_FILES_PER_USER", 5000)
# Backups: their folder (empty: GATEWAY_HOME/backups), a passphrase for their keys, how many of the
# newest stay, and for how many weeks one.
BACKUP_FOLDER: str = env.text("BACKUP_FOLDER")
BACKUP_PASSPHRASE: str = env.text("BACKUP_PASSPHRASE", exact=True)
BACKUP_KEEP: int = env.number("BACKUP_KEEP", 7, minimum=1)
BACKUP_KEEP_WEEKS: int = env.number("BACKUP_KEEP_WEEKS", 4)
# The time after which an upload that no message refers to is removed.
UNNAMED_FILE_HOURS: int = env.number("UNNAMED_FILE_HOURS", 24, minimum=1)

# Leases, and the sweep that resumes work after a crash.
RUN_LEASE_SECONDS: int = env.number("RUN_LEASE_SECONDS", 15, minimum=1)
RUN_MAX_ATTEMPTS: int = env.number("RUN_MAX_ATTEMPTS", 5, minimum=1)
DELIVERY_LEASE_SECONDS: int = env.number("DELIVERY_LEASE_SECONDS", 60, minimum=1)
# The period in which refused deliveries are retried.
DELIVERY_RETRY_HOURS: int = env.number("DELIVERY_RETRY_HOURS", 24, minimum=1)
SWEEP_SECONDS: int = env.number("SWEEP_SECONDS", 10, minimum=1)
EVENT_FRAME_MILLISECONDS: int = env.number("EVENT_FRAME_MILLISECONDS", 16, minimum=1)
DEBOUNCE_IDLE_MILLISECONDS: int = env.number("DEBOUNCE_IDLE_MILLISECONDS", 500)
DEBOUNCE_MAX_MILLISECONDS: int = env.number("DEBOUNCE_MAX_MILLISECONDS", 2000)
RUNS_PER_WORKER: int = env.number("RUNS_PER_WORKER", 1000, minimum=1)
# Beyond this wait for a place, further messages are refused.
MAX_QUEUE_SECONDS: int = env.number("MAX_QUEUE_SECONDS", 5, minimum=1)

# Schedules: how many one person may have, the shortest intervals, whether people may make them in
# groups, and how late an occurrence counts as missed.
SCHEDULES_PER_PERSON: int = env.number("SCHEDULES_PER_PERSON", 50, minimum=0)
SCHEDULE_TEXT_MINUTES: int = env.number("SCHEDULE_TEXT_MINUTES", 1, minimum=1)
SCHEDULE_PROMPT_MINUTES: int = env.number("SCHEDULE_PROMPT_MINUTES", 15, minimum=1)
SCHEDULES_IN_GROUPS: bool = env.switch("SCHEDULES_IN_GROUPS", default=True)
SCHEDULE_MISSED_SECONDS: int = env.number("SCHEDULE_MISSED_SECONDS", 60, minimum=10)
TOOL_QUESTION_HOURS: int = env.number("TOOL_QUESTION_HOURS", 24, minimum=1)
TOOL_CALLS_AT_ONCE: int = env.number("TOOL_CALLS_AT_ONCE", 4, minimum=1)
OCCURRENCE_DAYS: int = env.number("OCCURRENCE_DAYS", 90, minimum=1)
# So long after its end the log of a run is folded; 0: never.
EVENT_FOLD_DAYS: int = env.number("EVENT_FOLD_DAYS", 1, minimum=0)

# Limits of the endpoints.
INBOUND_REQUEST_TIMEOUT_SECONDS: int = env.number("INBOUND_REQUEST_TIMEOUT_SECONDS", 600)
MAX_BODY_BYTES: int = env.number("MAX_BODY_BYTES", 12 * 1024 * 1024, minimum=1024)
MAX_ANSWER_BYTES: int = env.number("MAX_ANSWER_BYTES", 1_000_000, minimum=1000)
MAX_TEXT_CHARACTERS: int = env.number("MAX_TEXT_CHARACTERS", 200_000, minimum=1)
MAX_FRAME_BYTES: int = env.number("MAX_FRAME_BYTES", 1024 * 1024, minimum=1024)
MAX_JSON_DEPTH: int = env.number("MAX_JSON_DEPTH", 64, minimum=4)
MAX_STREAMS_PER_USER: int = env.number("MAX_STREAMS_PER_USER", 32, minimum=1)
MAX_SOCKETS_PER_USER: int = env.number("MAX_SOCKETS_PER_USER", 20, minimum=1)
RATE_PER_MINUTE_USER: int = env.number("RATE_PER_MINUTE_USER", 100)
RATE_PER_MINUTE_KEY: int = env.number("RATE_PER_MINUTE_KEY", 600)
RATE_PER_MINUTE_ADDRESS: int = env.number("RATE_PER_MINUTE_ADDRESS", 1200)
WRONG_KEYS_PER_MINUTE: int = env.number("WRONG_KEYS_PER_MINUTE", 20, minimum=1)
# The head of a request (its first line and its fields), before authentication.
MAX_HEAD_BYTES: int = env.number("MAX_HEAD_BYTES", 64 * 1024, minimum=4096)
MAX_HEAD_FIELDS: int = env.number("MAX_HEAD_FIELDS", 100, minimum=20)
HEAD_SECONDS: int = env.number("HEAD_SECONDS", 15, minimum=1)
BODY_SECONDS: int = env.number("BODY_SECONDS", 60, minimum=1)
MAX_ATTACHMENTS: int = env.number("MAX_ATTACHMENTS", 16, minimum=1)
TELEGRAM_MAX_BODY_BYTES: int = env.number("TELEGRAM_MAX_BODY_BYTES", 1024 * 1024, minimum=65536)
MAX_STREAM_BYTES: int = env.number("MAX_STREAM_BYTES", 64 * 1024 * 1024, minimum=65536)
MAX_STREAM_SECONDS: int = env.number("MAX_STREAM_SECONDS", 7200, minimum=1)
STREAM_PIECE_BYTES: int = env.number("STREAM_PIECE_BYTES", 64 * 1024, minimum=1024)
MAX_WAITING_SOCKETS: int = env.number("MAX_WAITING_SOCKETS", 200, minimum=0)
MAX_WAITING_SOCKETS_PER_ADDRESS: int = env.number("MAX_WAITING_SOCKETS_PER_ADDRESS", 20, minimum=1)
SOCKET_AUTH_SECONDS: int = env.number("SOCKET_AUTH_SECONDS", 10, minimum=1)
FRAMES_PER_MINUTE: int = env.number("FRAMES_PER_MINUTE", 600, minimum=1)
MAX_QUEUED_FRAMES: int = env.number("MAX_QUEUED_FRAMES", 256, minimum=2)
MAX_UNANSWERED_PER_SOCKET: int = env.number("MAX_UNANSWERED_PER_SOCKET", 32, minimum=1)
STREAM_STALL_SECONDS: int = env.number("STREAM_STALL_SECONDS", 30, minimum=1)
HEARTBEAT_SECONDS: int = env.number("HEARTBEAT_SECONDS", 15, minimum=1)
# Answers to OpenAI clients begin with a link to the trace of their run; an account's config may
# say otherwise ("trace_link").
OPENAI_TRACE_LINK: str = env.choice("OPENAI_TRACE_LINK", "off", "content", "reasoning")
OUTBOUND_MARKDOWN_FORMAT: str = env.choice("OUTBOUND_MARKDOWN_FORMAT", "whatsapp", "plain", "none")

# Unknown senders.
NOTIFY_UNKNOWN_REQUEST: bool = env.switch("NOTIFY_UNKNOWN_REQUEST", default=True)
# The lifetime of the link in a notice.
DECISION_LINK_HOURS: int = env.number("DECISION_LINK_HOURS", 24, minimum=1)
HELD_MESSAGE_HOURS: int = env.number("HELD_MESSAGE_HOURS", 24, minimum=1)
HELD_MESSAGES_PER_SENDER: int = env.number("HELD_MESSAGES_PER_SENDER", 20, minimum=1)
# Media of all unknown senders in total; beyond it the oldest are dropped.
HELD_MEDIA_MB: int = env.number("HELD_MEDIA_MB", 50, minimum=0)
UNKNOWN_REQUEST_DAYS: int = env.number("UNKNOWN_REQUEST_DAYS", 7, minimum=1)
UNKNOWN_REQUESTS_MAX: int = env.number("UNKNOWN_REQUESTS_MAX", 10_000, minimum=10)
STRANGER_DENIED_REPLY: str = env.text("STRANGER_DENIED_REPLY")
STRANGER_APPROVED_REPLY: str = env.text("STRANGER_APPROVED_REPLY")
# Which users may create link codes.
LINK_CODES: str = env.choice("LINK_CODES", "everyone", "owners", "off")
LINK_CODE_MINUTES: int = env.number("LINK_CODE_MINUTES", 10, minimum=1)

# Agents that send results (MCP).
SEND_RESULT_OVERFLOW: str = env.choice("SEND_RESULT_OVERFLOW", "truncate", "split")
SEND_RESULT_SECONDS: int = env.number("SEND_RESULT_SECONDS", 30, minimum=1)
AGENT_SESSION_IDLE_HOURS: int = env.number("AGENT_SESSION_IDLE_HOURS", 72)
# Set for `manage.py mcp` by the program that starts an agent.
GATEWAY_API_KEY: str = env.text("GATEWAY_API_KEY")
GATEWAY_SESSION_ID: str = env.text("GATEWAY_SESSION_ID")
MCP_ALLOWED_ORIGINS: list[str] = env.words("MCP_ALLOWED_ORIGINS")

# Web Push: how many browsers a person may have, and whom push services may write to (mailto: or
# https:; empty: GATEWAY_URL).
PUSH_BROWSERS_PER_PERSON: int = env.number("PUSH_BROWSERS_PER_PERSON", 10, minimum=1)
PUSH_CONTACT: str = env.text("PUSH_CONTACT")

UNDELIVERED_SECONDS: int = env.number("UNDELIVERED_SECONDS", 300, minimum=1)
# The owner is told of messages or long tasks that wait for a worker for so long.
QUEUE_ALERT_MINUTES: int = env.number("QUEUE_ALERT_MINUTES", 10, minimum=1)
METRICS_TOKEN: str = env.text("METRICS_TOKEN")

# At INFO, httpx logs every URL (Telegram's hold the bot token), axes the path of every sign-in
# (that of a link holds its token), mcp a line a request, and Celery a line a task.
QUIET = (
    "celery", "kombu",
    "httpx", "httpcore", "httpx2", "telegram", "mcp", "axes", "anthropic", "google_genai", "openai",
)  # fmt: skip
LOG_LEVEL: str = env.level("LOG_LEVEL", "INFO")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "gateway_project.logs.JsonFormatter"},
        "terminal": {"()": "gateway_project.logs.TerminalFormatter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "terminal" if sys.stderr.isatty() else "json",
        }
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        **{name: {"level": "WARNING"} for name in QUIET},
        # It logs pieces of what servers send: words of people, and keys that a server repeats.
        "mcp.client": {"level": "CRITICAL"},
    },
}
