import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

async function getWeather({ city }) {
  const place = await (await fetch(`${process.env.WEATHER_API}/weather?city=${city}`)).json();
  return `${place.city}: ${place.degrees} degrees`;
}

const tools = { get_weather: tool({ inputSchema: z.object({ city: z.string() }), execute: getWeather }) };
const system = "You tell the weather.";

async function answer(prompt) {
  const model = createOpenAI()("gpt-5-mini");
  return (await generateText({ model, system, prompt, tools, stopWhen: stepCountIs(10) })).text;
}
