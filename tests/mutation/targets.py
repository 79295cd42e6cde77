"""What is mutated, and the tests that ought to notice."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Part of one module. ``names``: its functions and constants, in one text; none: all.

    ``tests``: files and folders; those marked slow are left out.
    """

    title: str
    path: str
    tests: tuple[str, ...]
    names: str = ""


RULE = ("tests/allowlist/test_permissions.py", "tests/allowlist/test_rule_edges.py")
TARGETS = (
    Target(
        "the rule",
        "allowlist/permissions.py",
        RULE,
        "Decision.allowed decide _decision _steps _listed _obstacle _open open_users",
    ),
    Target(
        "the key check",
        "allowlist/keys.py",
        ("tests/allowlist/test_keys.py", "tests/allowlist/test_keys_alone.py"),
        "create authenticate usable revoke _used _record _digest",
    ),
    Target(
        "the URL guard",
        "core/fetch.py",
        ("tests/fetching",),
        "is_public is_public_or_private Fetcher._parts Fetcher._address",
    ),
    Target(
        "the signed links",
        "core/files.py",
        ("tests/core/test_signed_links.py", "tests/long/test_links.py"),
        "DAY_SECONDS link token signer opened count_open revoke",
    ),
    Target(
        "the fence of runs",
        "core/runs.py",
        ("tests/core/test_fences.py",),
        "settle settle_queued release",
    ),
    Target(
        "the fence of jobs",
        "core/jobs.py",
        ("tests/core/test_job_fences.py",),
        "keep is_ours has_succeeded ours release",
    ),
)
