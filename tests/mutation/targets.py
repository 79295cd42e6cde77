"""The mutated modules, and the tests that ought to fail."""

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
        "Decision.allowed decide _steps _listed _obstacle _open users_without",
    ),
    Target(
        "who is meant",
        "allowlist/identities.py",
        RULE,
    ),
    Target(
        "the key check",
        "allowlist/keys.py",
        ("tests/allowlist/test_keys.py", "tests/allowlist/test_keys_alone.py"),
        "create named authenticate usable revoke _used _record _digest",
    ),
    Target(
        "the sign-in links",
        "allowlist/sign_in.py",
        (
            "tests/core/files/test_signed_links.py",
            "tests/gateway_project/processes/test_sign_in.py",
            "tests/allowlist/test_account_audit.py",
            "tests/allowlist/test_sign_in_links.py",
        ),
    ),
    Target(
        "revocation",
        "allowlist/revocation.py",
        (
            "tests/allowlist/test_revocation.py",
            "tests/allowlist/test_revocation_edges.py",
            "tests/channels_app/tool_requests/test_pause_edges.py",
        ),
    ),
    Target(
        "the codes of people",
        "allowlist/link_codes.py",
        (
            "tests/allowlist/test_linking.py",
            "tests/allowlist/test_link_code_edges.py",
            "tests/channels_app/bridge/test_link_codes.py",
        ),
    ),
    Target(
        "held messages",
        "allowlist/held_messages.py",
        (
            "tests/allowlist/test_held_edges.py",
            "tests/allowlist/test_held_media.py",
            "tests/allowlist/test_denied_messages.py",
            "tests/allowlist/test_requests.py",
        ),
    ),
    Target(
        "the URL guard",
        "core/lib/safe_fetch.py",
        (
            "tests/core/lib/test_safe_fetch.py",
            "tests/core/lib/test_safe_fetch_edges.py",
            "tests/core/lib/test_safe_fetch_networks.py",
            "tests/core/lib/test_safe_fetch_posts.py",
            "tests/core/providers/test_rows.py",
        ),
    ),
    Target(
        "the signed links",
        "core/files/storage.py",
        ("tests/core/files/test_signed_links.py", "tests/core/jobs_worker/test_links.py"),
        "DAY_SECONDS link token signer opened count_open revoke",
    ),
    Target(
        "the fence of runs",
        "core/conversations/runs.py",
        ("tests/core/conversations/test_fences.py", "tests/core/conversations/test_runs.py"),
        "CLAIM WHOLE END ANSWERED END_JOBS FOLLOWING lease_end claim keep settle settle_queued "
        "cancelled_while_queued leave_behind wake_next request_cancel cancel_all_of recover "
        "requeue_expired expired earlier release",
    ),
    Target(
        "the fence of jobs",
        "core/conversations/jobs.py",
        ("tests/core/conversations/test_jobs.py",),
        "WAKE_SECONDS MOST_ATTEMPTS OPEN begin begun claim lease_end keep is_ours has_succeeded "
        "ours tell finish fail release recover",
    ),
    Target(
        "the writer's fence",
        "core/conversations/events.py",
        ("tests/core/conversations/test_fences.py", "tests/core/conversations/test_events.py"),
        "ADD Log.append Log.close Log.publish Writer.close abandon write_batch rows_in missing "
        "append_all_unheld",
    ),
    Target(
        "the keys of repeats",
        "core/conversations/inbox.py",
        ("tests/core/conversations/test_inbox.py",),
        "RepeatKey.stored body_digest Draft.known_by Draft.may_come_twice find_duplicate store "
        "take_over",
    ),
    Target(
        "the fence of deliveries",
        "core/conversations/outbox.py",
        (
            "tests/core/conversations/test_outbox.py",
            "tests/core/conversations/test_outbox_edges.py",
        ),
    ),
    Target(
        "deliveries in doubt",
        "core/conversations/uncertain_deliveries.py",
        (
            "tests/core/conversations/test_uncertain_deliveries.py",
            "tests/core/conversations/test_outbox.py",
        ),
    ),
    Target(
        "restored deliveries",
        "core/conversations/restored_deliveries.py",
        ("tests/core/conversations/test_restored_deliveries.py",),
    ),
    Target(
        "version of the database",
        "core/database/schema_version.py",
        ("tests/core/database/test_schema_version.py",),
    ),
    Target(
        "messages found again",
        "channels_app/delivery/find_sent.py",
        (
            "tests/channels_app/delivery/test_find_sent.py",
            "tests/channels_app/telegram/test_found_again.py",
        ),
    ),
    Target(
        "the holder's lease",
        "core/lib/leases.py",
        ("tests/core/lib/test_leases.py",),
    ),
    Target(
        "secrets in blocks",
        "channels_app/delivery/secret_blocks.py",
        ("tests/channels_app/delivery/test_secret_blocks.py",),
    ),
    Target(
        "the decision links",
        "allowlist/decision_links.py",
        ("tests/channels_app/delivery/test_secret_blocks.py",),
    ),
    Target(
        "heads of requests",
        "gateway_project/processes/bounded_http.py",
        (
            "tests/gateway_project/processes/test_bounded_http.py",
            "tests/gateway_project/processes/test_slow_heads.py",
        ),
    ),
    Target(
        "updates of Telegram",
        "channels_app/telegram/updates.py",
        ("tests/channels_app/telegram/test_updates.py",),
    ),
    Target(
        "the webhook",
        "channels_app/telegram/views.py",
        ("tests/channels_app/telegram/test_views.py",),
    ),
    Target(
        "who is addressed",
        "channels_app/telegram/addressing.py",
        ("tests/channels_app/telegram/test_addressing.py",),
    ),
    Target(
        "updates taken",
        "channels_app/telegram/receive.py",
        ("tests/channels_app/telegram/test_receive.py",),
    ),
    Target(
        "messages that come in",
        "channels_app/intake/inbound.py",
        ("tests/channels_app/intake/test_inbound.py",),
    ),
    Target(
        "bounds of media",
        "channels_app/intake/media.py",
        ("tests/channels_app/intake/test_media_bounds.py",),
        "MEGABYTE waits data_url is_picture stored_of uploaded sizes_to_keep digest_of sent_files "
        "from_data_url fetch check_size",
    ),
)
