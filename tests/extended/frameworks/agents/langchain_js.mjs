import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";
import { z } from "zod";

async function getWeather({ city }) {
  const place = await (await fetch(`${process.env.WEATHER_API}/weather?city=${city}`)).json();
  return `${place.city}: ${place.degrees} degrees`;
}

const schema = z.object({ city: z.string() });
const tools = [tool(getWeather, { name: "get_weather", description: "Tell the weather in a city.", schema })];
const model = new ChatOpenAI({ model: "gpt-5-mini" });
const agent = createAgent({ model, tools, systemPrompt: "You tell the weather." });

async function answer(content) {
  const { messages } = await agent.invoke({ messages: [{ role: "user", content }] });
  return messages.at(-1).content;
}
