// Serves prepared replies in every dialect, and prints where. The argument is the installed package's folder.
// What the agent asks for is the last word of its message.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { LLMock } = await import(pathToFileURL(join(process.argv[2], "dist/index.js")).href);
const mock = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
const usage = { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 };
const add = (match, response, more = {}) => mock.addFixture({ match, response, chunkSize: 5, ...more });

for (const model of ["openai", "anthropic", "gemini", "ollama"]) {
    add({ model, userMessage: "greet" }, { content: "Hello — wie geht's? 你好 🌊", usage }, { latency: 2 });
    add({ model, userMessage: "score" }, { content: '{"score": 4, "why": "fine"}' });
    add({ model, userMessage: "shorten" }, { content: "Cut at the lim", finishReason: "length" });
    add({ model, userMessage: "sums", hasToolResult: true }, { content: "They are 3 and 7." });
    add({ model, userMessage: "sums" }, {
        content: "Let me add.",
        toolCalls: [{ name: "add", arguments: '{"a": 1, "b": 2}' }, { name: "add", arguments: '{"a": 3, "b": 4}' }],
    });
    add({ model, userMessage: "busy", sequenceIndex: 0 }, { error: { message: "slow down" }, status: 429 });
    add({ model, userMessage: "busy" }, { content: "Thanks for waiting." });
    add({ model, userMessage: "cut", sequenceIndex: 0 }, { content: "This breaks off somewhere." }, { truncateAfterChunks: 2 });
    add({ model, userMessage: "cut" }, { content: "This is whole." });
    add({ model, userMessage: "gone" }, { content: "A long reply that never ends." }, { latency: 50, disconnectAfterMs: 120 });
    add({ model, userMessage: "garbled" }, { content: "never said" }, { chaos: { malformedRate: 1 } });
    add({ model, userMessage: "dropped" }, { content: "never said" }, { chaos: { dropRate: 1 } });
}

await mock.start();
console.log(mock.url);
