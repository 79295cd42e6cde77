// A page with assistant-ui: a thread with pictures, a tool of the page, a button to stop, and resume.
import { createRoot } from "react-dom/client";
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  ErrorPrimitive,
  makeAssistantTool,
  MessagePrimitive,
  ThreadPrimitive,
} from "@assistant-ui/react";
import {
  AssistantChatTransport,
  createResumableSessionStorage,
  useChatRuntime,
} from "@assistant-ui/react-ai-sdk";
import { lastAssistantMessageIsCompleteWithToolCalls as called } from "ai";

const { key, assistant } = Object.fromEntries(new URLSearchParams(location.search));
const headers = { Authorization: `Bearer ${key}` };
const storage = createResumableSessionStorage();
const transport = new AssistantChatTransport({
  api: "/ui/chat",
  headers,
  body: assistant ? { assistant } : {},
  fetch: (address, request) => {
    request.signal?.addEventListener("abort", () => {
      const id = request.body ? JSON.parse(request.body).id : storage.getStreamId().split("/")[0];
      fetch(`/ui/chat/${id}/stop`, { method: "POST", headers })
        .then((answer) => answer.json())
        .then((found) => void (window.stopped = found));
    });
    return fetch(address, request);
  },
  resumable: { storage, resumeApi: (stream) => `/ui/chat/${stream}` },
});
const Weather = makeAssistantTool({
  toolName: "get_weather",
  type: "frontend",
  description: "The weather.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
  execute: async ({ city }) => `It is sunny in ${city}.`,
});
const Text = ({ text }) => <span className="text">{text}</span>;
const Message = () => (
  <MessagePrimitive.Root className="message">
    <MessagePrimitive.Parts components={{ Text }} />
    <MessagePrimitive.Error>
      <ErrorPrimitive.Root className="error">
        <ErrorPrimitive.Message />
      </ErrorPrimitive.Root>
    </MessagePrimitive.Error>
  </MessagePrimitive.Root>
);

function Page() {
  const runtime = useChatRuntime({ transport, sendAutomaticallyWhen: called });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Weather />
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Messages components={{ Message }} />
        <ComposerPrimitive.Root>
          <ComposerPrimitive.AddAttachment>Attach</ComposerPrimitive.AddAttachment>
          <ComposerPrimitive.Input aria-label="Message" />
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("page")).render(<Page />);
