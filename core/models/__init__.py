"""The rows of a conversation, and their state machines.

State changes only in the modules ``inbox``, ``runs``, ``outbox``, ``jobs``, ``budgets``,
``schedules`` and ``tool_calls`` of ``core.conversations``, and only by conditional UPDATE. The
constraints here enforce the guarantees of that code.
"""

from core.models.conversations import (
    ChatSession,
    InboundMessage,
    Message,
    ModelTrouble,
    Run,
    RunEvent,
    RunFailure,
)
from core.models.files import StoredFile
from core.models.installation import (
    Alert,
    Backup,
    BackupSchedule,
    Installation,
    Skill,
    WorkerHeartbeat,
)
from core.models.language_models import (
    Assistant,
    AssistantBinding,
    AssistantModel,
    AssistantVersion,
    LanguageModel,
    ModelCircuit,
    ModelProvider,
)
from core.models.mcp import (
    McpConnection,
    McpFinding,
    McpRevocation,
    McpServer,
    McpSignIn,
    McpTool,
)
from core.models.people import ChannelAccount, ChannelIdentity, User
from core.models.push import PushMessage, PushSubscription
from core.models.retention import RetentionRule
from core.models.schedules import Occurrence, Schedule
from core.models.tools import RunPause, ToolCall, ToolGrant, ToolRule
from core.models.usage import Budget, BudgetPeriod, ModelCall, UsageDay
from core.models.web import SearchProvider
from core.models.work import Delivery, Job, JobStep

__all__ = [
    "Alert",
    "Assistant",
    "AssistantBinding",
    "AssistantModel",
    "AssistantVersion",
    "Backup",
    "BackupSchedule",
    "Budget",
    "BudgetPeriod",
    "ChannelAccount",
    "ChannelIdentity",
    "ChatSession",
    "Delivery",
    "InboundMessage",
    "Installation",
    "Job",
    "JobStep",
    "LanguageModel",
    "McpConnection",
    "McpFinding",
    "McpRevocation",
    "McpServer",
    "McpSignIn",
    "McpTool",
    "Message",
    "ModelCall",
    "ModelCircuit",
    "ModelProvider",
    "ModelTrouble",
    "Occurrence",
    "PushMessage",
    "PushSubscription",
    "RetentionRule",
    "Run",
    "RunEvent",
    "RunFailure",
    "RunPause",
    "Schedule",
    "SearchProvider",
    "Skill",
    "StoredFile",
    "ToolCall",
    "ToolGrant",
    "ToolRule",
    "UsageDay",
    "User",
    "WorkerHeartbeat",
]
