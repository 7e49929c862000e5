"""From what a user registered (a class, an object, a function) to the factory of an agent or a grader."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple


class Contract(NamedTuple):
    """What an agent or a grader has to be: its name in messages, its method, and the method's parameters.

    A function with a parameter named in ``acting`` is itself the agent or grader, and no factory.
    """

    word: str
    method: str
    parameters: tuple[str, ...]
    acting: frozenset[str]

    @property
    def how(self) -> str:
        """What can be registered, in words."""
        signature = f"({', '.join(self.parameters)})"
        article = "an" if self.word[0] in "aeiou" else "a"
        return (
            f"{article} {self.word}: a class with {self.method}{signature}, an object of such a class, "
            f"or a function {signature}"
        )


AGENT = Contract("agent", "run", ("task_input", "ctx"), frozenset({"task_input", "ctx", "context"}))
GRADER = Contract("grader", "grade", ("evidence",), frozenset({"evidence"}))


class Trait(NamedTuple):
    """What an agent or a grader may declare of itself: its name, its values in words, and their check."""

    name: str
    expected: str
    fits: Callable[[Any], bool]


class InstanceFactory:
    """A factory for an object that exists already, and so takes no settings.

    Attributes that a class may have (``templates``, ``input_problems``) are those of the object.
    """

    def __init__(self, thing: Any, words: str) -> None:
        self.thing, self.words = thing, words

    def __call__(self, **settings: Any) -> Any:
        if settings:
            raise TypeError(f"it was registered as {self.words}, and takes no config")
        return self.thing

    def __getattr__(self, name: str) -> Any:
        return getattr(self.thing, name)


class FunctionAdapter:
    """A function in place of the only method of an agent or a grader."""

    def __init__(self, function: Callable[..., Any], contract: Contract) -> None:
        self.__doc__ = function.__doc__
        self.version = getattr(function, "version", "1")
        setattr(self, contract.method, function)


def is_registrable(contract: Contract, claim: Any) -> bool:
    """Whether a thing can be registered as this contract at all; a text names something to import."""
    return isinstance(claim, str) or callable(claim) or callable(getattr(claim, contract.method, None))


def factory_of(contract: Contract, claim: Any) -> Any:
    """Give the factory that a registered thing stands for; most are factories themselves."""
    if isinstance(claim, type):
        return claim
    if callable(getattr(claim, contract.method, None)):
        return InstanceFactory(claim, "an object, not as a class")
    required = _required_parameters(claim)
    # A function that takes just these parameters is the agent or the grader itself, and no factory.
    acts = len(required) == len(contract.parameters) and (
        # An async function makes nothing, whatever its parameters are called.
        inspect.iscoroutinefunction(claim) or any(each.name in contract.acting for each in required)
    )
    return InstanceFactory(FunctionAdapter(claim, contract), "a function") if acts else claim


def construction_fault(contract: Contract, factory: Any, settings: Collection[str]) -> str:
    """Describe why nothing of this contract can be made of the factory and the settings; empty if it can."""
    if isinstance(factory, type) and not callable(getattr(factory, contract.method, None)):
        return f"a class {factory.__name__} without {contract.method}"
    required = _required_parameters(factory)
    if placed := [each.name for each in required if each.kind is each.POSITIONAL_ONLY]:
        name = getattr(factory, "__qualname__", repr(factory))
        return f"{name}, whose {', '.join(placed)} cannot be given by name"
    needed = [each.name for each in required] if inspect.isfunction(factory) else []
    lacking = [name for name in needed if name not in settings]
    return f"a function that has to be given {', '.join(lacking)}" if lacking else ""


def accepted_settings(factory: Any) -> tuple[Collection[str], Collection[str]] | None:
    """Give the settings that a factory takes, and those that it requires; None where it takes any."""
    if isinstance(factory, InstanceFactory):
        return (), ()
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    nameless = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
    accepted = {name: parameter for name, parameter in parameters.items() if parameter.kind not in nameless}
    return accepted, [name for name, parameter in accepted.items() if parameter.default is parameter.empty]


def misfit_traits(thing: object, traits: Collection[Trait]) -> Iterator[tuple[str, str]]:
    """Yield what is expected and what was found, for each trait with a wrong value.

    No code of the author runs: a trait that the class only describes (a property, a slot) is not read.
    """
    thing = thing.thing if isinstance(thing, InstanceFactory) else thing
    absent = object()
    for trait in traits:
        value = inspect.getattr_static(thing, trait.name, absent)
        described = hasattr(type(value), "__get__") and not callable(value)
        if value is not absent and not described and not trait.fits(value):
            yield f"{trait.name}: {trait.expected}", repr(value)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def are_names(value: Any) -> bool:
    """Whether it is a list, a tuple or a set of texts, or None, which declares nothing."""
    kinds = (list, tuple, set, frozenset)
    return value is None or (isinstance(value, kinds) and all(map(is_text, value)))


def is_map_of_texts(value: Any) -> bool:
    """Whether it is a map from texts to texts, or None, which declares nothing."""
    if value is None:
        return True
    return isinstance(value, Mapping) and all(map(is_text, (*value.keys(), *value.values())))


def _required_parameters(function: Any) -> list[inspect.Parameter]:
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters
    except (TypeError, ValueError):
        # Some built-in functions and classes have no signature that can be read.
        return []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    placed = (each for each in parameters.values() if each.kind in places)
    return [each for each in placed if each.default is each.empty]
