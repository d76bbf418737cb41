// Drives `ensemble acp` with the official TypeScript SDK. Arguments: the folder of the packages, the program, and a folder whose
// `ensembles` are served. Prints what it was told as JSON.
import { spawn } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

const [modules, program, folder] = process.argv.slice(2);
const acp = await import(`${modules}/@agentclientprotocol/sdk/dist/v1/stable/acp.js`);
const text = (words) => [{ type: "text", text: words }];

/** A server with a client; `permitted` answers requests for a permission, `forms`: it shows forms. */
async function start(forms, permitted) {
  const child = spawn(program, ["acp", "ensembles"], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  const updates = [];
  const connection = acp
    .client({ name: "tests" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params, agent }) => permitted(params, agent))
    .onRequest(acp.methods.client.elicitation.create, () => ({ action: "accept", content: { answer: "yes" } }))
    .onNotification(acp.methods.client.session.update, ({ params }) => void updates.push(params.update))
    .connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
  const { agent } = connection;
  const capabilities = forms ? { elicitation: { form: {} } } : {};
  const initialized = await agent.request("initialize", { protocolVersion: 1, clientCapabilities: capabilities });
  return {
    agent,
    initialized,
    /** The updates since the last call: their kinds, and the text of the agent's messages. */
    told() {
      const all = updates.splice(0);
      const said = all.filter((update) => update.sessionUpdate === "agent_message_chunk");
      return {
        kinds: [...new Set(all.map((update) => update.sessionUpdate))].sort(),
        said: said.map((update) => update.content.text).join(""),
        heard: all.filter((update) => update.sessionUpdate === "user_message_chunk").map((update) => update.content.text),
        cards: all.filter((update) => update.sessionUpdate === "tool_call").map((update) => update.title),
      };
    },
    async session(ensemble) {
      const opened = await agent.request("session/new", { cwd: folder, mcpServers: [] });
      const chosen = { sessionId: opened.sessionId, configId: "ensemble", value: ensemble };
      const set = await agent.request("session/set_config_option", chosen);
      return { id: opened.sessionId, options: set.configOptions.map((option) => [option.id, option.currentValue]) };
    },
    async prompt(session, words) {
      const answer = await agent.request("session/prompt", { sessionId: session, prompt: text(words) });
      // What came before this answer has been handled when another one is here.
      await agent.request("session/list", { cwd: folder });
      return answer.stopReason;
    },
    async end(signal) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      signal ? child.kill(signal) : child.stdin.end();
      await ended;
    },
  };
}

async function until(file) {
  while (!existsSync(file)) await new Promise((resolve) => setTimeout(resolve, 10));
}

const told = {};
let answers = [];
const allowing = (params) => {
  const once = params.options.find((option) => option.kind === "allow_once");
  return { outcome: { outcome: "selected", optionId: once.optionId } };
};
const cancelling = async (params, agent) => {
  await agent.notify("session/cancel", { sessionId: params.sessionId });
  return { outcome: { outcome: "cancelled" } };
};
let server = await start(true, (params, agent) => answers.shift()(params, agent));
told.initialized = server.initialized;

const gate = await server.session("gate");
told.options = gate.options;
told.gate = [await server.prompt(gate.id, "go"), server.told()];

answers = [allowing];
const careful = await server.session("careful");
told.careful = [await server.prompt(careful.id, "go"), server.told()];

// A cancellation while a permission is open; then the session goes on.
answers = [cancelling, allowing];
const again = await server.session("careful");
told.cancelled = [await server.prompt(again.id, "go"), await server.prompt(again.id, "/resume")];
server.told();

// A cancellation in the middle; then the session goes on, also after its server was killed.
const slow = await server.session("slow");
let prompt = server.prompt(slow.id, "go");
await until(`${folder}/begun`);
await server.agent.notify("session/cancel", { sessionId: slow.id });
told.slow = [await prompt];
rmSync(`${folder}/begun`);
server.prompt(slow.id, "/resume").catch(() => {});
await until(`${folder}/begun`);
writeFileSync(`${folder}/done`, "");
await server.end("SIGKILL");

server = await start(false, allowing);
await server.agent.request("session/load", { sessionId: slow.id, cwd: folder, mcpServers: [] });
const listed = await server.agent.request("session/list", { cwd: folder });
told.loaded = server.told();
told.slow.push(await server.prompt(slow.id, "/resume"), server.told());

told.listed = listed.sessions.map((session) => session.sessionId).includes(gate.id);
await server.agent.request("session/resume", { sessionId: gate.id, cwd: folder, mcpServers: [] });
told.resumed = [server.told(), await server.prompt(gate.id, "more"), server.told()];
await server.agent.request("session/close", { sessionId: gate.id });
told.closed = await server.prompt(gate.id, "more").catch((error) => error.message);
await server.end();
console.log(JSON.stringify(told));
