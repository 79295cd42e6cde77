"""The rows of a conversation, and their state machines.

State changes only in the modules ``inbox``, ``runs``, ``outbox``, ``jobs``, ``budgets``,
``schedules`` and ``tool_calls`` of ``core.conversations``, and only by conditional UPDATE. The
constraints here enforce the guarantees of that code.
"""

from core.models.conversations import ChatSession as ChatSession
from core.models.conversations import InboundMessage as InboundMessage
from core.models.conversations import Message as Message
from core.models.conversations import ModelTrouble as ModelTrouble
from core.models.conversations import Run as Run
from core.models.conversations import RunEvent as RunEvent
from core.models.conversations import RunFailure as RunFailure
from core.models.files import StoredFile as StoredFile
from core.models.installation import Alert as Alert
from core.models.installation import Backup as Backup
from core.models.installation import BackupSchedule as BackupSchedule
from core.models.installation import Installation as Installation
from core.models.installation import Skill as Skill
from core.models.installation import WorkerHeartbeat as WorkerHeartbeat
from core.models.language_models import Assistant as Assistant
from core.models.language_models import AssistantBinding as AssistantBinding
from core.models.language_models import AssistantModel as AssistantModel
from core.models.language_models import AssistantVersion as AssistantVersion
from core.models.language_models import LanguageModel as LanguageModel
from core.models.language_models import ModelCircuit as ModelCircuit
from core.models.language_models import ModelProvider as ModelProvider
from core.models.mcp import McpConnection as McpConnection
from core.models.mcp import McpFinding as McpFinding
from core.models.mcp import McpRevocation as McpRevocation
from core.models.mcp import McpServer as McpServer
from core.models.mcp import McpSignIn as McpSignIn
from core.models.mcp import McpTool as McpTool
from core.models.people import ChannelAccount as ChannelAccount
from core.models.people import ChannelIdentity as ChannelIdentity
from core.models.people import User as User
from core.models.push import PushMessage as PushMessage
from core.models.push import PushSubscription as PushSubscription
from core.models.retention import RetentionRule as RetentionRule
from core.models.run_fields import Route as Route
from core.models.run_fields import RunOptions as RunOptions
from core.models.schedules import Occurrence as Occurrence
from core.models.schedules import Schedule as Schedule
from core.models.tools import RunPause as RunPause
from core.models.tools import ToolCall as ToolCall
from core.models.tools import ToolGrant as ToolGrant
from core.models.tools import ToolRule as ToolRule
from core.models.usage import Budget as Budget
from core.models.usage import BudgetPeriod as BudgetPeriod
from core.models.usage import ModelCall as ModelCall
from core.models.usage import UsageDay as UsageDay
from core.models.web import SearchProvider as SearchProvider
from core.models.work import Delivery as Delivery
from core.models.work import Job as Job
from core.models.work import JobStep as JobStep
