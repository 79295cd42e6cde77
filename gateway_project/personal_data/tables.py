"""The tables with data of people, the fields of each that an export has, and the reasons why other
tables are left out.

A model with a way to a person that stands in neither list fails a test. An export has no secrets:
no hash, token or encrypted value.
"""

from dataclasses import dataclass

from django.db.models import Model, QuerySet

from allowlist.models import ApiKey, UnknownRequest
from channels_app.models import SourceFeedback
from core.models import (
    Assistant,
    AssistantBinding,
    Budget,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Job,
    McpConnection,
    McpServer,
    Message,
    ModelCall,
    Occurrence,
    PushSubscription,
    RetentionRule,
    Run,
    RunEvent,
    RunFailure,
    RunPause,
    Schedule,
    StoredFile,
    ToolCall,
    ToolGrant,
    ToolRule,
    UsageDay,
    User,
)

VERSION = 1
PERSON = (
    "username first_name last_name display_name email language time_zone is_active is_owner "
    "is_staff is_superuser only_listed show_progress hide_push_text last_account__channel "
    "last_account__name last_target last_spoke_at last_login date_joined"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A list of an export: rows of ``model`` whose ``path`` leads to the person.

    ``fields``: names as in a query, separated by spaces.
    """

    name: str
    model: type[Model]
    path: str
    fields: str
    title: str

    def rows(self, user: User) -> QuerySet[Model]:
        """Return the rows of a person, oldest first."""
        wanted = user.pk if self.path.endswith("_id") else user
        return self.model._default_manager.filter(**{self.path: wanted}).order_by("pk")


ACCOUNT = "account__channel account__name"
TOKENS = "prompt_tokens cached_tokens completion_tokens reasoning_tokens cost"
SECTIONS = (
    Section(
        "identities",
        ChannelIdentity,
        "user",
        f"kind channel {ACCOUNT} value expires_at created_at",
        "Addresses on channels",
    ),
    Section(
        "requests",
        UnknownRequest,
        "granted_user",
        f"public_id {ACCOUNT} kind sender sender_name chat is_group state count last_text "
        "first_seen_at last_seen_at decided_at decided_via",
        "Requests to be let in",
    ),
    Section(
        "conversations",
        ChatSession,
        "user",
        f"public_id {ACCOUNT} chat thread title created_at last_message_at closed_at for_agent",
        "Conversations",
    ),
    Section(
        "messages",
        Message,
        "session__user",
        "session__public_id run__public_id role text format data calls created_at",
        "Messages",
    ),
    Section(
        "received",
        InboundMessage,
        "user",
        f"session__public_id run__public_id {ACCOUNT} kind sender sender_name chat thread "
        "external_message_id text media state note received_at",
        "Messages as they were received",
    ),
    Section(
        "runs",
        Run,
        "user",
        "public_id session__public_id origin text state result usage error created_at started_at "
        "finished_at",
        "Turns of the assistant",
    ),
    Section("failures", RunFailure, "run__user", "run__public_id code reason at", "Failed turns"),
    Section("events", RunEvent, "run__user", "run__public_id seq data", "Events of turns"),
    Section(
        "pauses",
        RunPause,
        "run__user",
        "run__public_id messages created_at",
        "Turns that waited for a yes",
    ),
    Section(
        "tool_calls",
        ToolCall,
        "run__user",
        "public_id run__public_id tool arguments state kind cost scope result decided_at "
        "created_at finished_at",
        "Calls of tools",
    ),
    Section(
        "jobs",
        Job,
        "run__user",
        "run__public_id tool parameters state message result error created_at finished_at",
        "Long tasks",
    ),
    Section(
        "deliveries",
        Delivery,
        "session__user",
        f"session__public_id run__public_id {ACCOUNT} target payload state external_message_id "
        "error created_at sent_at",
        "Messages that were sent",
    ),
    Section(
        "files",
        StoredFile,
        "user",
        "public_id session__public_id run__public_id name content_type size sha256 origin opens "
        "expires_at revoked_at purged_at created_at",
        "Files",
    ),
    Section(
        "ratings",
        SourceFeedback,
        "user",
        "run__public_id message_id source_id verdict title url query created_at changed_at",
        "Ratings of sources",
    ),
    Section(
        "schedules",
        Schedule,
        "user",
        f"public_id kind text rule start time_zone missed state why {ACCOUNT} chat thread "
        "sender sender_kind group created_at changed_at",
        "Reminders and schedules",
    ),
    Section(
        "occurrences",
        Occurrence,
        "schedule__user",
        "schedule__public_id nominal_at snoozed state was_missed fired_at executed_at "
        "delivered_at acknowledged_at note",
        "Times of schedules",
    ),
    Section(
        "keys",
        ApiKey,
        "user",
        "name prefix scopes model_only created_at last_used_at expires_at revoked_at",
        "API keys",
    ),
    Section(
        "browsers",
        PushSubscription,
        "user",
        "browser created_at succeeded_at",
        "Browsers with notifications",
    ),
    Section(
        "tool_rules", ToolRule, "user", "tool ask created_at", "Rules of tools for this person"
    ),
    Section(
        "retention_rules",
        RetentionRule,
        "user",
        "kind days newest created_at",
        "Rules of how long rows are kept",
    ),
    Section(
        "tool_grants",
        ToolGrant,
        "user",
        "tool session__public_id until created_at",
        "Tools that are allowed",
    ),
    Section(
        "connections",
        McpConnection,
        "user",
        "server__name scope connected_at expires_at",
        "Accounts at MCP servers",
    ),
    Section(
        "servers",
        McpServer.people.through,
        "user",
        "mcpserver__name",
        "MCP servers for chosen people",
    ),
    Section(
        "offered_assistants",
        Assistant.people.through,
        "user",
        "assistant__name",
        "Assistants for chosen people",
    ),
    Section("assistants", AssistantBinding, "user", "assistant__name", "Assistant"),
    Section("budgets", Budget, "user", "unit period limit enabled created_at", "Budgets"),
    Section(
        "model_calls",
        ModelCall,
        "user",
        f"day purpose model_name {TOKENS} failure created_at",
        "Calls of models",
    ),
    Section(
        "usage",
        UsageDay,
        "user_id",
        f"day purpose model_name calls {TOKENS} failure",
        "Sums of calls of models, by day",
    ),
)

# Other models with a way to a person, and why an export has nothing of them. All but the first
# group go when the person is forgotten.
LEFT_OUT = {
    # Kept, without the person.
    "allowlist.AuditEntry": "the installation's log of decisions; it belongs to the owner",
    "allowlist.BlockPattern": "the owner's rule against unknown senders; only names who made it",
    "core.ModelTrouble": "how often models fail, for all people; only names the last run",
    "core.BudgetPeriod": "spending of a budget for all; a number where it is for each person",
    # Removed.
    "core.User": "the section person",
    "core.User_groups": "roles in the admin; the section person says whether there are any",
    "core.User_user_permissions": "rights in the admin, as the roles",
    "core.JobStep": "working copies of a long task, removed when it ends; its result is exported",
    "core.PushMessage": "references to what was to be told; that itself is exported",
    "core.McpSignIn": "a sign-in on its way: secrets for some minutes; its outcome is a connection",
    "allowlist.SignInLink": "a hash of a one-time link, for a week",
    "allowlist.LinkCode": "a hash of a one-time code, for minutes",
    "allowlist.LinkAttempt": "wrong codes of the last hour, counted by sender",
    "admin.LogEntry": "Django's list of recent actions of staff; the audit has the same",
    "sessions.Session": "signed-in browsers: only a key that is a secret",
    "axes.AccessAttempt": "wrong passwords of the last hour, counted by name and address",
    "axes.AccessFailureLog": "wrong passwords; switched off",
    "axes.AccessLog": "sign-ins; switched off",
}
