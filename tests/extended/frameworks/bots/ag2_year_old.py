"""AG2 before 1.0, when it was another library: plain; ended by its tool's result; typed."""

from autogen import ConversableAgent, LLMConfig, register_function
from weather import SYSTEM, Report, get_weather, sentence


def pair(is_last, **more):
    """Give the assistant and the one who runs its tool, who ends the chat with a text."""
    config = LLMConfig({"model": "gpt-4o-mini"}, cache_seed=None, **more)
    how = {"human_input_mode": "NEVER", "code_execution_config": False}
    assistant = ConversableAgent(
        "weather", SYSTEM, llm_config=config, is_termination_msg=lambda each: each["role"] == is_last, **how
    )
    user = ConversableAgent(
        "user", llm_config=False, is_termination_msg=lambda each: not each.get("tool_calls"), **how
    )
    register_function(get_weather, caller=assistant, executor=user, description="Tell the weather.")
    return user, assistant


async def chat(question, is_last="", **more):
    user, assistant = pair(is_last, **more)
    done = await user.a_initiate_chat(assistant, message=question, max_turns=50, silent=True)
    return done.chat_history[-1]["content"]


async def run(question: str) -> str:
    return await chat(question)


async def terminal(question: str) -> str:
    return sentence(await chat(question, is_last="tool"))


async def structured(question: str) -> str:
    return str(Report.model_validate_json(await chat(question, response_format=Report)))
