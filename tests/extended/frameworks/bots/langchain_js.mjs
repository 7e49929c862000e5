// LangChain.js, as a command.
import { readFileSync } from "node:fs";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";
import { z } from "zod";

const getWeather = tool(
  async ({ city }) => {
    const place = await (await fetch(`${process.env.WEATHER_API}/weather?city=${city}`)).json();
    return `${place.city}: ${place.degrees} degrees`;
  },
  { name: "get_weather", description: "Tell the weather.", schema: z.object({ city: z.string() }) },
);
const model = new ChatOpenAI({ model: "gpt-5-mini" });
const agent = createAgent({ model, tools: [getWeather], systemPrompt: "You tell the weather." });

const task = JSON.parse(readFileSync(0, "utf8"));
const state = await agent.invoke({ messages: [{ role: "user", content: task.input.content }] });
console.log(JSON.stringify({ type: "answer", text: state.messages.at(-1).content }));
