// The official MCP client over streamable HTTP and stdio: what the tools answer, as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { GATEWAY, KEY, SESSION, PYTHON, MANAGE } = process.env;

const transports = {
  http: () =>
    new StreamableHTTPClientTransport(new URL(`${GATEWAY}/mcp`), {
      requestInit: { headers: { Authorization: `Bearer ${KEY}`, "X-Session-Id": SESSION } },
    }),
  stdio: () =>
    new StdioClientTransport({
      command: PYTHON,
      args: [MANAGE, "mcp"],
      env: { ...process.env, GATEWAY_API_KEY: KEY, GATEWAY_SESSION_ID: SESSION },
      stderr: "inherit",
    }),
};

async function tried(work) {
  try {
    return await work();
  } catch (error) {
    return { code: error.code };
  }
}

const found = {};
for (const [name, make] of Object.entries(transports)) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(make());
  const progress = [];
  const call = async (tool, args, options) =>
    (await client.callTool({ name: tool, arguments: args }, undefined, options)).structuredContent;
  found[name] = {
    tools: (await client.listTools()).tools.map((tool) => tool.name),
    sent: await call("send_result", { content: "| a | b |\n|---|---|\n| 1 | 2 |" }),
    empty: await call("send_result", { content: "```\n```" }),
    timeout: await call("wait_for_reply", { timeout_seconds: 1 }, {
      onprogress: (told) => progress.push(told.message),
    }),
    unknown: await tried(() => call("no_such_tool", {})),
    sessions: (await call("list_sessions", {})).sessions,
    progress,
  };
  await client.close();
}
console.log(JSON.stringify(found));
