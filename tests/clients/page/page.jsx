// A page with assistant-ui that talks to /ui/chat, as its documentation builds one.
import { createRoot } from "react-dom/client";
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
} from "@assistant-ui/react";
import { AssistantChatTransport, useChatRuntime } from "@assistant-ui/react-ai-sdk";
import { lastAssistantMessageIsCompleteWithApprovalResponses as answered } from "ai";

const { key } = window;
const Text = ({ text }) => <span className="text">{text}</span>;
const Tool = ({ toolName, approval, respondToApproval, status, result }) => (
  <div className="tool">
    {toolName} {status?.type} {JSON.stringify(result ?? null)}
    {approval && approval.approved === undefined && (
      <>
        <button onClick={() => respondToApproval({ approved: true })}>Allow</button>
        <button onClick={() => respondToApproval({ approved: false })}>Deny</button>
      </>
    )}
  </div>
);
const Message = () => (
  <MessagePrimitive.Root className="message">
    <MessagePrimitive.Parts components={{ Text, tools: { Fallback: Tool } }} />
  </MessagePrimitive.Root>
);

function Page() {
  const runtime = useChatRuntime({
    transport: new AssistantChatTransport({
      api: "/ui/chat",
      headers: { Authorization: `Bearer ${key}` },
    }),
    sendAutomaticallyWhen: answered,
  });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Viewport>
          <ThreadPrimitive.Messages components={{ Message }} />
        </ThreadPrimitive.Viewport>
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" />
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("page")).render(<Page />);
