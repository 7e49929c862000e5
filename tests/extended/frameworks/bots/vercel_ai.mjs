// Vercel's AI SDK, as a command: over chat completions, over responses, and streamed.
import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
const getWeather = tool({
  description: "Tell the weather.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    const place = await (await fetch(`${process.env.WEATHER_API}/weather?city=${city}`)).json();
    return `${place.city}: ${place.degrees} degrees`;
  },
});

const task = JSON.parse(readFileSync(0, "utf8"));
const way = process.argv[2];
const how = {
  model: way === "chat" ? openai.chat("gpt-5-mini") : openai.responses("gpt-5-mini"),
  system: "You tell the weather.",
  prompt: task.input.content,
  tools: { get_weather: getWeather },
  stopWhen: stepCountIs(50),
};
const text = way === "streamed" ? await streamText(how).text : (await generateText(how)).text;
console.log(JSON.stringify({ type: "answer", text }));
