"""All mutants of a file: each differs from it in one place of one function."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
NAMES = {
    one: other
    for pair in (
        ("min", "max"),
        ("minimum", "maximum"),
        ("floor", "ceil"),
        ("any", "all"),
        ("argmin", "argmax"),
        ("zeros", "ones"),
        ("zeros_like", "ones_like"),
        ("bisect_left", "bisect_right"),
    )
    for one, other in (pair, pair[::-1])
}
NEIGHBOURS = {0: (1, -1), 1: (0, 2), 2: (1, 3)}


@dataclass(frozen=True)
class Mutant:
    """One change of one file. `name` says it without a line number, so that it outlives changes elsewhere."""

    path: str
    line: int
    name: str
    module: str
    function: str
    source: str
    change: tuple[int, int]  # the number of its place in the source, and which of the alternatives there

    @property
    def compilable(self) -> ast.Module:
        """The whole file with the change in it."""
        tree = ast.parse(self.source)
        place, turn = self.change
        list(_places(tree))[place][2][turn]()
        return ast.fix_missing_locations(tree)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.name}"


def mutants_of(path: Path, shown: str, module: str) -> list[Mutant]:
    """Every mutant of the file, which is imported as `module` and called `shown` here.

    Comparisons become their neighbours and their opposites; + and -, * and /, shifts, and/or, & and |, min and max and
    other pairs are exchanged; a sign, `not` or ~ is dropped; a condition is negated; True and False are exchanged; 0, 1
    and 2 become one more and one less. What stands outside functions, annotations, the words of messages and zip's
    `strict` stay.
    """
    source = path.read_text()
    found: list[Mutant] = []
    for place, (_, _, changes) in enumerate(_places(ast.parse(source))):
        for turn in range(len(changes)):
            function, node, again = list(_places(ast.parse(source)))[place]
            before = _text(node)
            again[turn]()
            name = f"{function}: {before} -> {_text(node)}"
            found.append(Mutant(shown, node.lineno, name, module, function, source, (place, turn)))
    return _distinct(found)


def _distinct(found: list[Mutant]) -> list[Mutant]:
    """With the number of the occurrence where a function has the same change twice."""
    seen: Counter[str] = Counter()
    result = []
    for mutant in found:
        seen[mutant.name] += 1
        mark = f" (number {seen[mutant.name]})" if seen[mutant.name] > 1 else ""
        result.append(replace(mutant, name=mutant.name + mark))
    return result


Shown = ast.expr | ast.stmt
Place = tuple[str, Shown, list[Callable[[], None]]]


def _places(tree: ast.Module) -> Iterator[Place]:
    """What can be changed: the function it is in, the node to show, and the changes, each made by a call."""
    for function, node, around in _within(tree, ""):
        for changes in _changes(node):
            yield function, around, changes


def _within(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST, Shown]]:
    """All nodes of function bodies, with the name of the function and what to show of them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _within(child, f"{name}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            for statement in child.body:
                yield from ((name + child.name, *inner) for inner in _walked(statement, statement))


def _walked(node: ast.AST, around: Shown) -> Iterator[tuple[ast.AST, Shown]]:
    """The node and all in it, each with the smallest operation, call or statement around it."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        return
    if isinstance(node, ast.Compare | ast.BinOp | ast.BoolOp | ast.Call | ast.Subscript | ast.Assign | ast.Return):
        around = node
    yield node, around
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "exc"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walked(child, child if isinstance(child, ast.stmt) else around)


def _changes(node: ast.AST) -> Iterator[list[Callable[[], None]]]:
    """The changes that can be made at a node, in lists of alternatives."""
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                others = COMPARISONS[type(operator)]
                yield [_put(node.ops, place, other()) for other in others]
        case ast.BinOp() | ast.AugAssign() if type(node.op) in OPERATORS and not _is_text(node):
            yield [_set(node, "op", OPERATORS[type(node.op)]())]
        case ast.BoolOp():
            yield [_set(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())]
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            yield [_set(node, "op", ast.UAdd())] if not isinstance(node.op, ast.Not) else [_doubled(node)]
        case ast.Constant(value=bool()):
            yield [_set(node, "value", not node.value)]
        case ast.Constant(value=int()) if node.value in NEIGHBOURS:
            yield [_set(node, "value", other) for other in NEIGHBOURS[node.value]]  # type: ignore[index]
        case ast.Name() if node.id in NAMES:
            yield [_set(node, "id", NAMES[node.id])]
        case ast.Attribute() if node.attr in NAMES:
            yield [_set(node, "attr", NAMES[node.attr])]
    if isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        yield [_set(node, "test", ast.UnaryOp(ast.Not(), node.test))]


def _is_text(node: ast.BinOp | ast.AugAssign) -> bool:
    return any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(node))


def _set(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def _put(items: list[ast.cmpop], place: int, value: ast.cmpop) -> Callable[[], None]:
    return lambda: items.__setitem__(place, value)


def _doubled(node: ast.UnaryOp) -> Callable[[], None]:
    """`not x` becomes `not not x`: x as a truth value."""
    return lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))


def _text(node: ast.AST) -> str:
    """Its source on one line; of a statement that holds others, the first line."""
    lines = ast.unparse(ast.fix_missing_locations(node)).split("\n")
    return lines[0] if isinstance(node, ast.stmt) else " ".join(" ".join(lines).split())
