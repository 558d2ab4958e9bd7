"""The most and the least certain inputs of a run, with some of the ablated copies that voted on them."""

from __future__ import annotations

import heapq
from base64 import b64encode
from collections.abc import Sequence

from sparsecert.datasets import Dataset
from sparsecert.records import Header, is_exact
from sparsecert.reports.comparison import percent
from sparsecert.reports.page.images import copies, null_colour, picture, shown_draws
from sparsecert.reports.page.markup import Html, joined, tag
from sparsecert.reports.page.outcomes import Outcome

COPIES = 4
SMALL = 96  # pixels of width up to which each is drawn as a square
MOST_CLASSES = 3  # of which the votes for an input are told


def chosen(every: Sequence[Outcome], count: int) -> dict[str, list[Outcome]]:
    """So many of the most certain inputs, the least certain, and the most certain of those answered wrongly, if any.

    Ties go to the input with the lowest number. No input is both among the most and the least certain.
    """
    most = heapq.nsmallest(count, every, key=lambda one: (*_downwards(one), one.example))
    known = {one.example for one in most}
    rest = [one for one in every if one.example not in known]
    wrong = [one for one in every if one.wrong]
    found = {
        "Most certain": most,
        "Least certain": heapq.nsmallest(count, rest, key=lambda one: (one.certainty, one.example)),
        "Most certain, and wrong": heapq.nsmallest(count, wrong, key=lambda one: (*_downwards(one), one.example)),
    }
    return {title: inputs for title, inputs in found.items() if inputs}


def _downwards(one: Outcome) -> tuple[float, ...]:
    return tuple(-value for value in one.certainty)


def examples(header: Header, data: Dataset, every: Sequence[Outcome], names: Sequence[str], count: int) -> Html:
    """Pictures of the chosen inputs under headings of the fourth level, and of what the model saw of them."""
    colour = null_colour(data)
    parts = []
    for title, inputs in chosen(every, count).items():
        shown = [_example(header, data, one, names) for one in inputs]
        parts += [tag("h4", title), tag("div", *shown, class_="examples")]
    null = f"{colour} is NULL" if scheme_ablates(header) else "units that are not kept show other values"
    return joined([tag("p", f"{_explained(header)}; {null}.", class_="note"), *parts])


def in_words(every: Sequence[Outcome], names: Sequence[str], count: int) -> Html:
    """The chosen inputs where they have no picture, such as rows of a table."""
    parts = []
    for title, inputs in chosen(every, count).items():
        parts += [tag("h4", title), tag("ul", *[tag("li", _told(one, names)) for one in inputs])]
    return joined(parts)


def scheme_ablates(header: Header) -> bool:
    """Whether masks make units NULL, and do not replace them by other values."""
    return bool(header.run["scheme"].get("kind") != "random-values")


def _explained(header: Header) -> str:
    order = "the certified radius, then" if header.kind == "certify" else "whether it is answered, then"
    which = "evenly spaced ones of the fixed set of masks" if is_exact(header) else "the first of the run's own masks"
    return (
        f"An input is the more certain the larger {order} the lead of its first class over the second in the votes. "
        f"On the left the input, then copies of it ablated by {which}"
    )


def _example(header: Header, data: Dataset, one: Outcome, names: Sequence[str]) -> Html:
    draws = shown_draws(header, COPIES)
    voted = _voted(one, draws, names)
    size = "small" if data.images.shape[2] <= SMALL else None
    images = [_image(picture(data, one.example), f"input {one.example}", "input", size)]
    for draw, vote, file in zip(draws, voted, copies(header, data, one.example, draws), strict=True):
        mask = f"{'mask' if is_exact(header) else 'copy'} {draw}"
        images.append(_image(file, f"{mask} of input {one.example}", f"{mask}{vote}", size))
    return tag("figure", tag("div", *images, class_="copies"), tag("figcaption", _told(one, names)))


def _image(file: bytes, alt: str, caption: str, size: str | None) -> Html:
    source = f"data:image/png;base64,{b64encode(file).decode('ascii')}"
    return tag("span", tag("img", src=source, alt=alt, class_=size), caption)


def _voted(one: Outcome, draws: Sequence[int], names: Sequence[str]) -> list[str]:
    """What each copy voted, where that is recorded."""
    if one.rankings is None:
        return [""] * len(draws)
    from sparsecert import rankings
    from sparsecert.certificates.plurality import firsts

    votes = firsts(rankings.read(one.rankings, len(names))).tolist()
    return [f": {names[votes[draw]] if votes[draw] < len(names) else 'no vote'}" for draw in draws]


def _told(one: Outcome, names: Sequence[str]) -> str:
    """An input in words: its class, what was answered and certified, and its votes."""
    if one.label is None:
        said = "abstained"
    else:
        verdict = "right" if one.right else "wrong"
        said = f"{names[one.label]} ({verdict})" + ("" if one.radius is None else f", certified radius {one.radius}")
    leading = sorted(range(len(names)), key=lambda label: (-one.votes.votes[label], label))[:MOST_CLASSES]
    counts = [(names[label], one.votes.votes[label]) for label in leading if one.votes.votes[label]]
    shares = [f"{name} ({percent(votes / one.votes.total)})" for name, votes in counts]
    return f"Input {one.example}, true class {names[one.true]}: {said}. Votes: {', '.join(shares) or 'none'}."
