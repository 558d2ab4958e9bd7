// The votes as they come in: ablated copies, a bar for each class, and the radius.

import { at } from "./service.js";
import { counted } from "./units.js";

const COPIES_SHOWN = 18, COPIES_WAITING = 36;
const CALM = matchMedia("(prefers-reduced-motion: reduce)").matches;
let waiting = [], shower = 0;

export function makeVotes(card) {
  for (const name of card.classes) {
    const row = at("votes").tBodies[0].insertRow(), head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    const drawing = shape("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img" });
    drawing.append(shape("rect", { class: "share", x: 0, y: 1, width: 0, height: 8 }));
    for (const kind of ["low", "high", "between"]) drawing.append(shape("line", { class: `reach ${kind}` }));
    row.append(head);
    row.insertCell().append(drawing);
    row.insertCell().textContent = "0";
  }
}

function shape(kind, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function setLine(line, x1, y1, x2, y2) {
  for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) line.setAttribute(name, value);
}

function leader(votes) {
  const most = Math.max(...votes);
  return most > 0 ? votes.indexOf(most) : null;
}

function showVotes(votes, bounds) {
  const total = votes.reduce((sum, one) => sum + one, 0), first = leader(votes);
  for (const [label, row] of [...at("votes").tBodies[0].rows].entries()) {
    const drawing = row.querySelector("svg"), share = total ? 100 * votes[label] / total : 0;
    const [low, high] = bounds && total ? bounds[label].map((bound) => 100 * bound) : [share, share];
    row.classList.toggle("leads", label === first);
    drawing.querySelector(".share").setAttribute("width", share);
    setLine(drawing.querySelector(".low"), low, 2.5, low, 7.5);
    setLine(drawing.querySelector(".high"), high, 2.5, high, 7.5);
    setLine(drawing.querySelector(".between"), low, 5, high, 5);
    drawing.setAttribute("aria-label",
      `${share.toFixed(1)}%` + (bounds ? `, probability between ${low.toFixed(1)} and ${high.toFixed(1)}%` : ""));
    row.cells[2].textContent = votes[label].toLocaleString("en");
  }
}

export function reset(says) {
  waiting = [];
  at("copies").replaceChildren();
  at("radius").textContent = "\u2013";
  at("says").textContent = says;
}

// One line of a certificate's stream; `copyOf` makes the picture of a copy.
export function showLine(line, card, copyOf) {
  const last = line.event === "certificate";
  if (!last) {
    at("samples").max = line.most;
    at("samples").value = line.samples;
    showVotes(line.votes, line.bounds);
    queueCopies(line.copies, card, copyOf, leader(line.votes) ?? leader(line.selection));
  } else {
    at("samples").value = at("samples").max;
  }
  at("counted").textContent = `${line.samples.toLocaleString("en")} ablated copies classified` +
    (last ? "" : ` of at most ${line.most.toLocaleString("en")}`);
  showRadius(line, last, card);
}

function showRadius(line, last, card) {
  at("radius").textContent = line.radius === null ? "\u2013" : String(line.radius);
  if (line.radius === null) {
    at("says").textContent = last ? "Nothing certified: the vote is too close."
      : card.exact ? "All masks vote; the certificate comes with the last one." : "Nothing certified yet.";
    return;
  }
  const proved = line.radius === 0 ? `certified, but a single perturbed ${card.units.slice(0, -1)} might change it`
    : `no perturbation of up to ${counted(line.radius, card)} changes it`;
  at("says").textContent = `${last ? "Certified" : "Certified so far"}. The answer is ${card.classes[line.label]}: ${proved}.`;
}

// Copies arrive faster than the eye follows: queue some and show them one by one.

function queueCopies(copies, card, copyOf, first) {
  for (const copy of copies) waiting.push({ ...copy, card, copyOf, first });
  waiting = waiting.slice(-COPIES_WAITING);
  if (!shower && waiting.length) shower = setInterval(showCopy, CALM ? 1000 : 110);
}

function showCopy() {
  const copy = waiting.shift();
  if (!copy) {
    clearInterval(shower);
    shower = 0;
    return;
  }
  const item = document.createElement("li");
  item.classList.toggle("other", copy.label !== copy.first);
  item.append(copy.copyOf(copy.retained), copy.label === null ? "?" : copy.card.classes[copy.label]);
  at("copies").prepend(item);
  while (at("copies").children.length > COPIES_SHOWN) at("copies").lastChild.remove();
}
