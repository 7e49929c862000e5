from google import genai
from google.genai import types

from weather import get_weather

HOW = types.GenerateContentConfig(system_instruction="You tell the weather.", tools=[get_weather])
