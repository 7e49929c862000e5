"""Settings that a request can do without: one that a provider refuses is left out from then on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pytest_agenteval.chat.failures import AttemptFailed

OPTIONAL = ("temperature", "top_p", "seed", "tool_choice", "response_format", "stream_options")
# What is made of a setting for some providers, and what these then call it where they refuse it.
_PROVIDER_NAMES = {"response_format": ("output_format", "output_config", "json_schema", "tool_choice")}


class OptionalSettings:
    """The optional settings of one chat, and which of them its provider has refused so far."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def without_refused(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Give settings without those that were refused."""
        return {name: value for name, value in settings.items() if name not in self.refused}

    def without_what_it_names(self, failed: AttemptFailed, told: str, sent: Collection[str]) -> AttemptFailed:
        """Give a failure as one that may be asked again at once, where it names a setting that was ``sent``.

        ``told`` are the provider's words. Any other failure comes back as it is.
        """
        if failed.cause != "bad_request":
            return failed
        lowered = told.lower()
        refused = [name for name in OPTIONAL if name in sent and _is_named(name, lowered)]
        if not refused:
            return failed
        self.refused.update(refused)
        message = f"{failed.message}; asked again without {', '.join(refused)}"
        return AttemptFailed(message, cause="bad_request", retry_after_s=0.0, status=failed.status)


def _is_named(setting: str, lowered: str) -> bool:
    return any(name in lowered for name in (setting, *_PROVIDER_NAMES.get(setting, ())))
