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
FIRING = (
    "tests/channels_app/schedules/test_firing.py",
    "tests/channels_app/schedules/test_firing_edges.py",
    "tests/channels_app/schedules/test_deletions.py",
    "tests/channels_app/schedules/test_errors.py",
    "tests/channels_app/schedules/test_outcomes.py",
)
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
        "rights over people",
        "allowlist/admin/people.py",
        ("tests/allowlist/test_person_rights.py",),
        "UserAdmin.user_change_password UserAdmin.has_change_permission "
        "UserAdmin.has_delete_permission UserAdmin.forbidden UserAdmin.get_fieldsets "
        "UserAdmin.get_readonly_fields "
        "UserAdmin.save_model UserAdmin.save_related UserAdmin.stop UserAdmin.save_formset "
        "UserAdmin.sign_in_link may_touch RIGHTS ADMITTED MANY_RIGHTS _end",
    ),
    Target(
        "the key check",
        "allowlist/keys.py",
        ("tests/allowlist/test_keys.py", "tests/allowlist/test_keys_alone.py"),
        "create named authenticate revoke _used _record _digest",
    ),
    Target(
        "the sign-in links",
        "allowlist/sign_in.py",
        (
            "tests/core/files/test_signed_links.py",
            "tests/gateway_project/processes/test_sign_in.py",
            "tests/allowlist/test_own_actions.py",
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
        "unknown senders",
        "allowlist/unknown_requests.py",
        (
            "tests/allowlist/test_request_edges.py",
            "tests/allowlist/test_requests.py",
            "tests/allowlist/test_other_accounts.py",
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
        "expired earlier release",
    ),
    Target(
        "the fence of jobs",
        "core/conversations/jobs.py",
        ("tests/core/conversations/test_jobs.py",),
        "MOST_ATTEMPTS OPEN begin begun claim claimed with_run keep is_ours is_wanted WANTED "
        "has_succeeded ours tell finish fail release retry put_back recover",
    ),
    Target(
        "the writer's fence",
        "core/conversations/events.py",
        ("tests/core/conversations/test_fences.py", "tests/core/conversations/test_events.py"),
        "ADD Log.append Log.close Log.publish Writer.close abandon write_batch rows_in missing "
        "append_all_unheld",
    ),
    Target(
        "repeats and batches",
        "core/conversations/inbox.py",
        (
            "tests/core/conversations/test_inbox.py",
            "tests/core/conversations/test_batch_edges.py",
        ),
        "RepeatKey.stored body_digest Draft.known_by Draft.may_come_twice find_duplicate store "
        "take_over usual_wait store_waiting furthest_flush flush_before "
        "with_due_batch flush_at flush_due due_sessions",
    ),
    Target(
        "times too far ahead",
        "core/database/transactions.py",
        ("tests/core/database/test_far_times.py",),
        "ahead passed FarTimes.ahead FarTimes.are_there FarTimes.bring_near",
    ),
    Target(
        "calls that a model wrote",
        "core/agent/fallback.py",
        ("tests/core/agent/test_fallback.py",),
        "CALL_CHARACTERS FENCE TAGGED NO_ARGUMENTS CODE written_call is_json pieces of_json "
        "arguments_of of_code",
    ),
    Target(
        "the end of an answer",
        "core/agent/loop.py",
        (
            "tests/core/agent/test_loop.py",
            "tests/core/agent/test_loop_edges.py",
            "tests/core/providers/test_returned.py",
        ),
        "Turn._ask_with_patience Turn._said_anything Turn._ask Turn._start_over Turn._cut "
        "Turn._fitting Turn._take",
    ),
    Target(
        "output of a turn",
        "core/agent/output.py",
        ("tests/core/agent/test_loop.py", "tests/core/agent/test_loop_edges.py"),
        "Output.retry Output.start_over",
    ),
    Target(
        "the bound of an answer",
        "core/providers/base.py",
        ("tests/core/providers/test_text_of.py",),
        "most_bytes size_of text_of ProviderError.of",
    ),
    Target(
        "outcomes of deliveries",
        "channels_app/replies/outbound.py",
        (
            "tests/channels_app/replies/test_deliver_edges.py",
            "tests/channels_app/replies/test_delivery_outcomes.py",
            "tests/channels_app/replies/test_refused_forms.py",
        ),
        "use_ordinary_form put_behind deliver send_now record_sent repeat_later "
        "notify_of_repeat record_failure fail last_known jitter described report_trouble "
        "follow_chat is_repeatable recover_lost",
    ),
    Target(
        "live edits",
        "channels_app/replies/streaming_edits.py",
        ("tests/channels_app/replies/test_live_edits.py",),
        "Live.changed Live.finish Live.abandon Live._work Live._calling Live._edit Live._has_turn "
        "rows_of begin_block",
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
        "pollers of accounts",
        "channels_app/worker/account_watcher.py",
        ("tests/channels_app/worker/test_account_watcher.py",),
    ),
    Target(
        "refused rich messages",
        "channels_app/telegram/outbound.py",
        ("tests/channels_app/telegram/test_refused_forms.py",),
        "NO_RICH refused_form",
    ),
    Target(
        "rules of retention",
        "core/conversations/retention/rules.py",
        ("tests/core/conversations/test_retention_rules.py",),
    ),
    Target(
        "counts of old rows",
        "core/conversations/retention/counts.py",
        ("tests/core/conversations/test_retention_counts.py",),
    ),
    Target(
        "passes of retention",
        "core/conversations/retention/passes.py",
        ("tests/core/conversations/test_retention_passes.py",),
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
        "bodies of requests",
        "channels_app/asgi/bodies.py",
        ("tests/channels_app/asgi/test_bodies.py",),
    ),
    Target(
        "rates and streams",
        "channels_app/asgi/throttling.py",
        ("tests/channels_app/asgi/test_throttle_edges.py",),
    ),
    Target(
        "admission",
        "channels_app/asgi/admission.py",
        ("tests/channels_app/asgi/test_admission_edges.py",),
    ),
    Target(
        "authentication",
        "channels_app/asgi/authentication.py",
        (
            "tests/channels_app/asgi/test_authentication_edges.py",
            "tests/channels_app/bridge/test_streams.py",
        ),
    ),
    Target(
        "event streams",
        "channels_app/asgi/event_stream.py",
        ("tests/channels_app/asgi/test_stream_edges.py",),
    ),
    Target(
        "strict JSON",
        "channels_app/asgi/strict_json.py",
        ("tests/channels_app/asgi/test_strict_json.py",),
    ),
    Target(
        "heads and answers",
        "channels_app/asgi/http.py",
        ("tests/channels_app/asgi/test_http_edges.py",),
    ),
    Target(
        "acceptance",
        "channels_app/asgi/acceptance.py",
        ("tests/channels_app/asgi/test_before_the_key.py",),
    ),
    Target(
        "our hosts",
        "channels_app/asgi/hosts.py",
        ("tests/channels_app/asgi/test_before_the_key.py",),
    ),
    Target(
        "reservations",
        "core/conversations/reservations.py",
        (
            "tests/core/conversations/test_reservations.py",
            "tests/core/conversations/test_budget_states.py",
        ),
    ),
    Target(
        "calls that wait",
        "core/conversations/tool_calls.py",
        ("tests/core/conversations/test_tool_calls.py",),
    ),
    Target(
        "decisions about calls",
        "channels_app/tool_requests/deciding.py",
        ("tests/channels_app/tool_requests/test_deciding.py",),
    ),
    Target(
        "metered calls",
        "core/conversations/usage.py",
        ("tests/core/conversations/test_usage.py", "tests/core/conversations/test_budgets.py"),
    ),
    Target(
        "approvals of calls",
        "core/agent/approvals.py",
        ("tests/core/agent/test_approvals.py",),
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
        ("tests/channels_app/worker/test_media_bounds.py",),
        "sizes_to_keep waits data_url is_picture digest_of sent_files",
    ),
    Target(
        "bounds of files of media",
        "channels_app/worker/media_files.py",
        ("tests/channels_app/worker/test_media_bounds.py",),
        "MEGABYTE stored_of uploaded copied kept from_data_url fetch check_size",
    ),
    Target(
        "what browsers wait for",
        "core/conversations/push_messages.py",
        ("tests/core/conversations/test_push_messages.py",),
    ),
    Target(
        "browsers of people",
        "core/conversations/push_subscriptions.py",
        ("tests/core/conversations/test_push_subscriptions.py",),
    ),
    Target(
        "requests to push services",
        "channels_app/push/sending.py",
        ("tests/channels_app/push/test_requests.py", "tests/channels_app/push/test_sending.py"),
    ),
    Target(
        "words of notifications",
        "channels_app/push/content.py",
        ("tests/channels_app/push/test_content.py",),
    ),
    Target(
        "the keys of Web Push",
        "channels_app/push/keys.py",
        ("tests/channels_app/push/test_keys.py",),
    ),
    Target(
        "browsers that ask",
        "channels_app/webchat/push.py",
        ("tests/channels_app/webchat/test_push.py",),
    ),
    Target(
        "periods of budgets",
        "core/conversations/budgets.py",
        ("tests/core/conversations/test_budget_periods.py",),
    ),
    Target(
        "what is announced",
        "channels_app/push/announcing.py",
        ("tests/channels_app/push/test_announced.py",),
    ),
    Target(
        "pages in view",
        "channels_app/push/presence.py",
        ("tests/channels_app/push/test_announced.py",),
    ),
    Target(
        "chores of a sweep",
        "channels_app/worker/chores.py",
        ("tests/channels_app/worker/test_chores.py",),
    ),
    Target(
        "notices of budgets",
        "channels_app/owner/budget_notices.py",
        ("tests/channels_app/owner/test_told_budgets.py",),
    ),
    Target(
        "accepted tools",
        "core/tools/mcp/pins.py",
        ("tests/core/tools/mcp/test_pins.py",),
    ),
    Target(
        "tools as described",
        "core/tools/mcp/offers.py",
        ("tests/core/tools/mcp/test_offers.py",),
    ),
    Target(
        "redirects of servers",
        "core/tools/mcp/transport.py",
        ("tests/core/tools/mcp/test_client.py",),
        "other_server Guard._counts",
    ),
    Target(
        "results of servers",
        "core/tools/mcp/results.py",
        ("tests/core/tools/mcp/test_results.py",),
    ),
    Target(
        "accounts at servers",
        "core/tools/mcp/oauth/connections.py",
        (
            "tests/core/tools/mcp/test_connections.py",
            "tests/core/tools/mcp/test_ended_accounts.py",
        ),
        "EARLY LEASE REFUSED_FOR MOST_REPEATED usable refreshed read "
        "is_over has_token_of take_lease release store_refreshed store_signed_in end_of "
        "prove end note_refused was_refused remove of_owners queue_revocation revoke_gone",
    ),
    Target(
        "calls with an account",
        "core/tools/mcp/oauth/signed_in.py",
        ("tests/core/tools/mcp/test_signed_in.py",),
    ),
    Target(
        "registered clients",
        "core/tools/mcp/oauth/registrations.py",
        ("tests/core/tools/mcp/test_connections.py",),
    ),
    Target(
        "pictures of long chats",
        "channels_app/asgi/chat_messages.py",
        ("tests/channels_app/client_api/openai/test_checks.py",),
        "EARLIER_PICTURE keep_newest_pictures",
    ),
    Target(
        "messages of Anthropic's clients",
        "channels_app/client_api/anthropic/content.py",
        (
            "tests/channels_app/client_api/anthropic/test_content.py",
            "tests/channels_app/client_api/anthropic/test_fields.py",
        ),
    ),
    Target(
        "messages of the AI SDK",
        "channels_app/client_api/ui_stream/fields.py",
        ("tests/channels_app/client_api/ui_stream/test_fields.py",),
    ),
    Target(
        "sign-ins at servers",
        "core/tools/mcp/oauth/sign_ins.py",
        ("tests/core/tools/mcp/test_sign_ins.py",),
    ),
    Target(
        "the flow of sign-ins",
        "core/tools/mcp/oauth/flow.py",
        ("tests/core/tools/mcp/test_flow.py",),
        "ENDED REFUSALS check_issuer revoke check_metadata check_address registered_before "
        "method_of authenticated ask_for_tokens is_final error_code tokens_of with_query",
    ),
    Target(
        "revocations at servers",
        "core/tools/mcp/oauth/revocations.py",
        ("tests/core/tools/mcp/test_revocations.py",),
    ),
    Target(
        "schedules that fire",
        "channels_app/schedules/firing.py",
        FIRING,
        "BATCH MOST_TRIES FEW_MISSED FIRST_RETRY LONGEST_RETRY look take_batch take_alone locked "
        "take_all take fire may_happen fire_as_list record leave_out follow count put_off give_up "
        "tell_paused reason_in",
    ),
    Target(
        "missed reminders",
        "channels_app/schedules/missed.py",
        (
            "tests/channels_app/schedules/test_firing.py",
            "tests/channels_app/schedules/test_firing_edges.py",
        ),
    ),
    Target(
        "outcomes of schedules",
        "channels_app/schedules/outcomes.py",
        (
            "tests/channels_app/schedules/test_outcomes.py",
            "tests/channels_app/schedules/test_deletions.py",
            "tests/channels_app/schedules/test_firing_edges.py",
        ),
    ),
    Target(
        "places of reminders",
        "channels_app/schedules/places.py",
        (
            "tests/channels_app/schedules/test_places.py",
            "tests/channels_app/schedules/test_firing.py",
        ),
    ),
    Target(
        "buttons of reminders",
        "channels_app/schedules/buttons.py",
        ("tests/channels_app/schedules/test_buttons.py",),
    ),
    Target(
        "occurrences",
        "core/conversations/schedules/occurrences.py",
        (
            "tests/core/conversations/schedules/test_occurrences.py",
            "tests/channels_app/schedules/test_firing_edges.py",
        ),
        "DUE LOOKS due by_conversation rule_of rule_in plan wait_for end_if_over withdraw_waiting "
        "may_snooze acknowledge next_look settle",
    ),
    Target(
        "changes of schedules",
        "core/conversations/schedules/changes.py",
        ("tests/core/conversations/schedules/test_changes.py",),
        "PAST create made_before change pause resume end next_times rule_of all_to_come "
        "in_minutes before_first check_interval locked lock_active",
    ),
)
