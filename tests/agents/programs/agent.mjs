// Asks for the weather by one call of a tool, and answers in the model's words.
import { readFileSync, writeFileSync } from "node:fs";

const task = JSON.parse(readFileSync(0, "utf8"));
const messages = [{ role: "user", content: task.input.content }];
const event = (value) => console.log(JSON.stringify(value));

async function ask() {
  const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
    body: JSON.stringify({ model: task.model ?? "gpt-5-mini", messages }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  const { message } = (await response.json()).choices[0];
  messages.push(message);
  return message;
}

const call = (await ask()).tool_calls[0];
const { city } = JSON.parse(call.function.arguments);
const found = await fetch(`${process.env.TOOL_API}/weather?city=${city}`);
const result = (await found.text()).replace(/["{}]/g, "");
event({ type: "tool_call", id: call.id, tool: "get_weather", args: { city } });
event({ type: "tool_result", id: call.id, result });
console.log(`the model wants the weather of ${city}`);
messages.push({ role: "tool", tool_call_id: call.id, content: result });
const text = (await ask()).content;
writeFileSync("report.md", `${text}\n`);
event({ type: "answer", text, state: { city } });
