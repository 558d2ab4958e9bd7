"""The page's style sheet: one column that a phone can show, light and dark, and paper."""

from __future__ import annotations

# Text stands out from the ground by 4.5 to 1 at least, lines and bars by 3 to 1; s0, s1, ... are the curves. The hues
# are near those of Okabe & Ito, which every kind of colour vision tells apart; dashes tell the curves apart as well.
LIGHT = {
    "ground": "#ffffff", "raised": "#f4f5f7", "text": "#1c2127", "quiet": "#55606b", "line": "#d3d8de",
    "link": "#005a8c", "right": "#0072b2", "wrong": "#c24e00", "abstained": "#767e87", "alarm": "#b00020",
    "s0": "#0072b2", "s1": "#c24e00", "s2": "#007f5f", "s3": "#a8488a", "s4": "#8a6400", "s5": "#4b5bc4",
    "s6": "#1c2127",
}  # fmt: skip
DARK = {
    "ground": "#14181d", "raised": "#1e242b", "text": "#e8ebee", "quiet": "#a6b0ba", "line": "#39424c",
    "link": "#7cc4f2", "right": "#4ea8de", "wrong": "#f28c4a", "abstained": "#8d98a3", "alarm": "#ff8a95",
    "s0": "#4ea8de", "s1": "#f28c4a", "s2": "#35c79c", "s3": "#e295c5", "s4": "#e0b040", "s5": "#9aa5ff",
    "s6": "#e8ebee",
}  # fmt: skip
TEXT_COLOURS = "text", "quiet", "link", "alarm"
LINE_COLOURS = "right", "wrong", "abstained", *(f"s{place}" for place in range(7))

RULES = """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--ground); color: var(--text);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  -webkit-text-size-adjust: 100%; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; max-width: 44rem; overflow-wrap: anywhere; }
.note, figcaption, caption, footer, dt { color: var(--quiet); font-size: .875rem; }
.alarm { color: var(--alarm); font-weight: 600; border-left: .3rem solid var(--alarm); padding-left: .75rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .5rem; margin: 1rem 0; }
.tiles > div { display: flex; flex-direction: column-reverse; justify-content: flex-end; background: var(--raised);
  border-radius: .4rem; padding: .6rem .75rem; }
.tiles dd { margin: 0; font-size: 1.5rem; font-weight: 600; line-height: 1.2; }
.facts { margin: 1rem 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr));
  gap: .35rem 1.5rem; }
.facts dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 30rem) { .facts > div { display: flex; gap: .75rem; } .facts dt { flex: 0 0 38%; } }
.wide { overflow-x: auto; margin: 1rem 0; } .long { max-height: 36rem; overflow-y: auto; }
.wide:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; min-width: min(100%, 20rem); font-variant-numeric: tabular-nums; font-size: .9rem; }
caption { text-align: left; padding-bottom: .35rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
thead th { vertical-align: bottom; }
th[scope=row], thead th:first-child { text-align: left; }
th[scope=row] { white-space: nowrap; } td { max-width: 18rem; overflow-wrap: break-word; }
.named th[scope=row] { white-space: normal; overflow-wrap: anywhere; min-width: 10rem; max-width: 20rem; }
thead th { position: sticky; top: 0; background: var(--ground); z-index: 1; }
td.barred { position: relative; min-width: 7rem; }
.bar { position: absolute; left: 0; bottom: 0; width: 100%; height: 3px; }
.bar rect { fill: var(--right); }
figure { margin: 1rem 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 0 1.5rem; }
.chart { display: block; width: 100%; max-width: 34rem; height: auto; }
.chart text { fill: var(--quiet); font-size: 12.5px; }
.chart .end { text-anchor: end; } .chart .middle { text-anchor: middle; }
.grid { stroke: var(--line); } .half { stroke: var(--quiet); stroke-dasharray: 2 3; }
.curve { fill: none; stroke-width: 2; } .between { fill: var(--s0); opacity: .15; }
.right { fill: var(--right); } .wrong { fill: var(--wrong); } .abstained { fill: var(--abstained); }
.legend { list-style: none; margin: .25rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: .15rem 1.25rem;
  font-size: .875rem; }
.legend li { display: flex; align-items: center; gap: .45rem; overflow-wrap: anywhere; min-width: 0; }
.swatch { width: 34px; height: 12px; flex: none; } .box { width: 12px; height: 12px; flex: none; }
.examples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 0 1.5rem; }
.copies { display: flex; flex-wrap: wrap; gap: .4rem; }
.copies > span { width: calc((100% - 1.6rem) / 5); max-width: 7rem; font-size: .75rem; color: var(--quiet); }
.copies img { display: block; width: 100%; height: auto; border: 1px solid var(--line); }
.small { image-rendering: pixelated; }
footer { margin-top: 2.5rem; padding-top: .75rem; border-top: 1px solid var(--line); }
"""
PRINT = """
  :root { font-size: 9.5pt; } body { max-width: none; padding: 0; }
  .examples, .charts { grid-template-columns: 1fr 1fr; }
  h2, h3 { break-after: avoid; } figure, tr, .tiles > div { break-inside: avoid; }
  .wide { overflow: visible; max-height: none; } thead th { position: static; }
  .tiles > div { border: 1px solid var(--line); }
  .chart { max-width: 12cm; } th, td { padding: .1rem .4rem; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
"""


def _variables(colours: dict[str, str]) -> str:
    return "; ".join(f"--{name}: {colour}" for name, colour in colours.items())


def style_sheet() -> str:
    """All of it; paper is always light."""
    series = " ".join(f".curve.s{place} {{ stroke: var(--s{place}); }}" for place in range(7))
    dots = " ".join(f"circle.s{place} {{ fill: var(--s{place}); }}" for place in range(7))
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}"
    light = f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}"
    return "\n".join([light, dark, RULES.strip(), series, dots, f"@media print {{{PRINT}}}"])
