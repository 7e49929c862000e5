"""Where a module can be broken, and what stands there then: one small change of its text each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One change of a module's text.

    ``line`` counts from 1; ``start`` and ``end`` are places in the text's UTF-8 bytes.
    """

    line: int
    start: int
    end: int
    before: str
    after: str

    def applied_to(self, text: str) -> str:
        """Give the module's text with the change made."""
        whole = text.encode()
        return (whole[: self.start] + self.after.encode() + whole[self.end :]).decode()


def mutations_of(text: str) -> list[Mutation]:
    """Give every change that can be made to a module, in reading order."""
    offsets = [0]
    for row in text.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(row))
    changes = (_mutation(node, after, text, offsets) for node, after in _changes(ast.parse(text)))
    return sorted(
        {each for each in changes if each.before != each.after}, key=lambda each: (each.start, each.after)
    )


def _mutation(node: ast.expr | ast.stmt, after: str, text: str, offsets: list[int]) -> Mutation:
    start = offsets[node.lineno - 1] + node.col_offset
    end = offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
    return Mutation(node.lineno, start, end, text.encode()[start:end].decode(), after)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for node in _executed(tree):
        if isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp):
            yield from ((node, f"({other})") for other in _operators(node))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, f"({ast.unparse(node.operand)})"
        elif isinstance(node, ast.Constant):
            yield from ((node, other) for other in _constants(node.value))
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield node, "return None"
        elif isinstance(node, ast.If | ast.IfExp):
            yield node.test, f"(not ({ast.unparse(node.test)}))"
        elif isinstance(node, ast.Break | ast.Continue):
            yield node, "continue" if isinstance(node, ast.Break) else "break"
        elif isinstance(node, ast.Raise) or _is_call(node):
            yield node, "pass"


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _operators(node: ast.Compare | ast.BoolOp | ast.BinOp) -> Iterator[str]:
    """Give the expression with its operator exchanged for the one that is easiest to mistake it for."""
    operator = node.ops[0] if isinstance(node, ast.Compare) else node.op
    other = SWAPPED.get(type(operator))
    if other is None or (isinstance(node, ast.Compare) and len(node.ops) > 1):
        return
    broken = ast.parse(ast.unparse(node), mode="eval").body
    if isinstance(broken, ast.Compare):
        broken.ops = [other()]  # type: ignore[list-item]  # the table holds comparisons for comparisons
    elif isinstance(broken, ast.BoolOp | ast.BinOp):
        broken.op = other()  # type: ignore[assignment]  # and operators for operators
    yield ast.unparse(broken)


def _constants(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int | float):
        yield repr(value + 1)


def _executed(tree: ast.Module) -> Iterator[ast.AST]:
    """Give what runs: no annotations, no docstrings, no imports, nothing inside an f-string.

    Python 3.11 does not say where the parts of an f-string stand.
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in ast.iter_child_nodes(node) if not _is_left_out(node, child))


def _is_left_out(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(child, ast.JoinedStr | ast.Import | ast.ImportFrom):
        return True
    if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
        return True
    if isinstance(parent, ast.AnnAssign | ast.arg) and child is parent.annotation:
        return True
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        return child is parent.returns or child in parent.decorator_list
    return isinstance(parent, ast.ClassDef) and child in parent.decorator_list


def spread(mutations: list[Mutation], count: int) -> list[Mutation]:
    """Give at most ``count`` of them, as far apart as can be."""
    if len(mutations) <= count:
        return mutations
    steps = [round(index * len(mutations) / count) for index in range(count + 1)]
    return [mutations[first] for first, _ in pairwise(steps)]
