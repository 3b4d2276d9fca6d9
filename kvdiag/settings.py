"""Every setting of the site, read once from the environment. A wrong value stops the start with one sentence.

The variables are listed, with their meaning, in .env.example. Limits are in kvdiag/limits.py.
"""

import os
from pathlib import Path
from urllib.parse import unquote, urlunsplit

from csp.constants import NONE, SELF

from kvdiag.broker import read_broker
from kvdiag.database import read_database
from kvdiag.environment import Environment, WrongSetting
from kvdiag.limits import read_limits
from kvdiag.secret_key import read_or_create_key

BASE_DIR = Path(__file__).resolve().parent.parent
environment = Environment()

# --- The data folder: everything kvdiag keeps -------------------------------------------------------------------------

_SHARE = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
KVDIAG_DATA = environment.folder("KVDIAG_DATA", _SHARE / "kvdiag")
KVDIAG_UPLOADS = KVDIAG_DATA / "uploads"
SECRET_KEY = read_or_create_key(
    Path(environment.text("KVDIAG_SECRET_KEY_FILE", str(KVDIAG_DATA / "secret.key"))).expanduser()
)
KVDIAG_LIMITS = read_limits(environment)
if KVDIAG_LIMITS.analysis_soft_s >= KVDIAG_LIMITS.analysis_hard_s:
    raise WrongSetting("KVDIAG_ANALYSIS_SOFT_S must be smaller than KVDIAG_ANALYSIS_HARD_S.")

# --- Who may use the site ---------------------------------------------------------------------------------------------

DEBUG = environment.flag("KVDIAG_DEBUG", False)
KVDIAG_ANONYMOUS_UPLOADS = environment.flag("KVDIAG_ANONYMOUS_UPLOADS", True)
KVDIAG_SIGN_UP = environment.flag("KVDIAG_SIGN_UP", True)
# The address readers use, where it differs from the one the server listens on (a reverse proxy, a host name).
_public = environment.url("KVDIAG_PUBLIC_URL", "", ("http", "https"))
KVDIAG_PUBLIC_URL = urlunsplit(_public).rstrip("/") if _public else ""
KVDIAG_TRUSTED_PROXIES = environment.whole_number("KVDIAG_TRUSTED_PROXIES", 0, most=8)
# This machine's own names are always allowed: the health check uses them.
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *environment.words("KVDIAG_ALLOWED_HOSTS", ())]
if _public:
    if not _public.hostname:
        raise WrongSetting("KVDIAG_PUBLIC_URL names no host; write https://kvdiag.example.org.")
    ALLOWED_HOSTS.append(_public.hostname)
    CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc}"]

# --- Database, broker, cache ------------------------------------------------------------------------------------------

DATABASES = {"default": read_database(environment, KVDIAG_DATA)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The analysis runs in a process below the task; the task's own limits are a net below those (ingest/tasks.py).
_broker = read_broker(environment, KVDIAG_DATA, longest_task_s=KVDIAG_LIMITS.analysis_hard_s + 45)
KVDIAG_REDIS_URL = _broker.redis_url
CACHES = {"default": _broker.cache}

CELERY_BROKER_URL = _broker.celery_url
CELERY_BROKER_TRANSPORT_OPTIONS = _broker.transport_options
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
# A task is done when it has ended, not when it was taken: one whose worker dies comes back. The row says who owns it.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_SOFT_TIME_LIMIT = KVDIAG_LIMITS.analysis_soft_s
CELERY_TASK_TIME_LIMIT = KVDIAG_LIMITS.analysis_hard_s
CELERY_WORKER_MAX_TASKS_PER_CHILD = 200
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 2, "interval_start": 0.1, "interval_max": 0.5}
CELERY_BEAT_SCHEDULE_FILENAME = str(KVDIAG_DATA / "beat-schedule")
CELERY_BEAT_SCHEDULE = {
    # one that waited behind a long diagnosis is stale: the next is on its way
    "queue lost uploads again": {"task": "ingest.tasks.sweep", "schedule": 5.0, "options": {"expires": 5}},
    "delete what has expired": {"task": "ingest.tasks.purge", "schedule": 900.0},
    "forget what ended long ago": {"task": "reports.tasks.forget_ended", "schedule": 86_400.0},
    "reopen muted findings": {"task": "reports.tasks.wake_muted_findings", "schedule": 3600.0},
}

# --- The site ---------------------------------------------------------------------------------------------------------

ROOT_URLCONF = "kvdiag.urls"
WSGI_APPLICATION = "kvdiag.wsgi.application"
INSTALLED_APPS = [
    "reports",
    "ingest",
    "teams",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "csp",
    "ninja",
]
MIDDLEWARE = [
    "ingest.method_doors.MethodDoors",
    "django.middleware.security.SecurityMiddleware",
    "kvdiag.middleware.PrivateByDefault",
    # above whatever may answer by itself: static files, and a token that opens nothing
    "csp.middleware.CSPMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "teams.own_forms.OwnForms",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "teams.middleware.TokenMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "kvdiag.middleware.WithoutNul",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "teams.context.site",
            ]
        },
    }
]
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT = environment.folder("KVDIAG_STATIC_ROOT", KVDIAG_DATA / "static")
STATICFILES_DIRS = [BASE_DIR / "static"] if (BASE_DIR / "static").is_dir() else []
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "kvdiag.plotly_bundle.PlotlyFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "kvdiag.static_files.HashedStaticFiles"},
}
WHITENOISE_MANIFEST_STRICT = False
MEDIA_ROOT = KVDIAG_UPLOADS
FILE_UPLOAD_PERMISSIONS = 0o600
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 << 20  # form fields; uploads are counted while they stream

# --- Accounts ---------------------------------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/dashboard/"
ACCOUNT_ADAPTER = "teams.adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_CHANGE_EMAIL = True  # one address a person; a new one takes its place once it is confirmed
ACCOUNT_EMAIL_SUBJECT_PREFIX = "kvdiag: "
ACCOUNT_SESSION_REMEMBER = None  # a box on the sign-in page
SESSION_COOKIE_AGE = 30 * 86_400

# Mail goes out by smtp://user:password@host:587 (STARTTLS) or smtps://…:465; without it none is sent.
_smtp = environment.url("KVDIAG_SMTP_URL", "", ("smtp", "smtps"))
KVDIAG_SENDS_MAIL = _smtp is not None
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if _smtp else 'dummy'}.EmailBackend"
EMAIL_TIMEOUT = 15
# Where mail can be sent, an address that was typed in opens nothing before its owner has followed the link in it.
ACCOUNT_EMAIL_VERIFICATION = "mandatory" if _smtp else "none"
if _smtp:
    EMAIL_HOST, EMAIL_PORT = _smtp.hostname or "localhost", _smtp.port or (465 if _smtp.scheme == "smtps" else 587)
    EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = unquote(_smtp.username or ""), unquote(_smtp.password or "")
    EMAIL_USE_SSL = _smtp.scheme == "smtps"
    EMAIL_USE_TLS = not EMAIL_USE_SSL and bool(EMAIL_HOST_USER)
DEFAULT_FROM_EMAIL = environment.text("KVDIAG_MAIL_FROM", "kvdiag@localhost")
# A webhook may not reach into the operator's own network unless she says so.
KVDIAG_INTERNAL_WEBHOOKS = environment.flag("KVDIAG_INTERNAL_WEBHOOKS", False)

# Sign-in by the operator's own OpenID Connect server.
_oidc = environment.url("KVDIAG_OIDC_URL", "", ("http", "https"))
if _oidc:
    INSTALLED_APPS += ["allauth.socialaccount", "allauth.socialaccount.providers.openid_connect"]
    SOCIALACCOUNT_ADAPTER = "teams.adapters.OidcAdapter"
    # A link, not a form: the policy lets our forms go nowhere else, and what starts here ends only with our state.
    SOCIALACCOUNT_LOGIN_ON_GET = True
    SOCIALACCOUNT_EMAIL_VERIFICATION = "none"  # nor need its people prove their addresses twice
    # The operator runs that server, so an address it has verified is the same person's account here.
    SOCIALACCOUNT_EMAIL_AUTHENTICATION = SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
    SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": "sso",
                    "name": environment.text("KVDIAG_OIDC_NAME", _oidc.hostname or "OpenID Connect"),
                    "client_id": environment.text("KVDIAG_OIDC_CLIENT_ID", "kvdiag"),
                    "secret": environment.text("KVDIAG_OIDC_SECRET", ""),
                    "settings": {"server_url": urlunsplit(_oidc)},
                }
            ],
        }
    }

# --- Cookies and headers ----------------------------------------------------------------------------------------------

_https = bool(_public and _public.scheme == "https")
SESSION_ENGINE = "django.contrib.sessions.backends.db"  # so that signing out ends a session everywhere
SESSION_COOKIE_NAME = "kvdiag_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
CSRF_COOKIE_NAME = "kvdiag_csrf"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True  # our scripts take the token from the page
CSRF_FAILURE_VIEW = "kvdiag.error_pages.stale_form"
if KVDIAG_TRUSTED_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
# An address is the key to its report, so no page tells it; teams.own_forms knows our forms nevertheless.
SECURE_REFERRER_POLICY = "no-referrer"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        # The two hashes are Plotly's own style elements (an empty one, and its map styles); look again when it moves.
        "style-src": [
            SELF,
            "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
            "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='",
        ],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "kvdiag.log_lines.WithoutSecrets",
            "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": environment.text("KVDIAG_LOG_LEVEL", "WARNING").upper()},
}
if LOGGING["root"]["level"] not in ("DEBUG", "INFO", "WARNING", "ERROR"):  # type: ignore[index]
    raise WrongSetting("KVDIAG_LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR.")

try:
    KVDIAG_UPLOADS.mkdir(parents=True, exist_ok=True, mode=0o700)
    for _option, _folder in _broker.transport_options.items():
        if "folder" in _option:
            Path(_folder).mkdir(parents=True, exist_ok=True, mode=0o700)
except OSError as problem:
    raise WrongSetting(f"The data folder {KVDIAG_DATA} cannot be written: {problem.strerror}.") from None
FILE_UPLOAD_TEMP_DIR = str(KVDIAG_UPLOADS)
