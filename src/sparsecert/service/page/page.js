// The page: an input, its certificate as the votes come in, and the prediction for a perturbed input.
// Every radius shown is certified: the service samples sequentially and reports anytime-valid radii.

import { at, lines, onToken, request, showError } from "./service.js";
import { makeVotes, reset, showLine } from "./proof.js";
import { counted, difference, unitsOf } from "./units.js";
import { Board } from "./board.js";
import { Form } from "./form.js";
import { Text } from "./text.js";

const HINTS = { row: "Change its values.", text: "Strike its words." };
const RESETS = { row: "Reset values", text: "Reset words" };
const MOST_WORDS = 1 << 16;
const ALPHA = 0.05, MAX_SAMPLES = 6000, PREDICT_SAMPLES = 1000;

let card = null;       // the model's card
let input = null;      // a Board, a Form or a Text
let units = null;
let certified = null;  // {entries, label, name, radius} of the certified input
let running = null;    // AbortController of the running certification
let predicting = null, predictTimer = 0;

function update() {
  const breaking = certified !== null;
  input.original = breaking ? certified.entries : null;
  input.locked = running !== null;
  document.querySelectorAll(".drawing").forEach((part) => { part.hidden = breaking; });
  document.querySelectorAll(".breaking").forEach((part) => { part.hidden = !breaking; });
  document.querySelector(`input[value=${breaking ? "opposite" : "pen"}]`).checked = true;
  at("input-title").textContent = input.title;
  at("main").classList.toggle("attacking", breaking);
  at("certify").hidden = breaking || running !== null;
  at("stop").hidden = running === null;
  at("attacked").hidden = !breaking;
  at("invite").hidden = breaking || running !== null;
  input.draw();
  if (breaking) updateAttack();
}

function onChange(another) {
  if (another) {
    if (running) running.abort();
    running = certified = null;
    showError(null);
    reset("Not certified yet.");
    update();
  } else if (certified) {
    updateAttack();
  }
}

// Certification.

function settings(entries) {
  const common = { ...input.body(entries), stream: true, copies: 4 };
  if (card.exact) return card.shape.length === 3 ? { ...common, against: "pixels" } : common;  // what a stroke perturbs
  const most = Math.min(MAX_SAMPLES, card.limits.samples);
  return { ...common, sampling: "sequential", max_samples: most, n0: Math.min(500, most >> 1), tolerance: 0, alpha: ALPHA };
}

async function certify() {
  showError(null);
  try {
    input.prepare();
  } catch (error) {
    reset(error.message);
    return;
  }
  const mine = new AbortController(), entries = input.entries.slice();
  running = mine;
  reset("Counting votes ...");
  update();
  try {
    const answer = await request("v1/certify", settings(entries), mine.signal), copyOf = input.copyOf(entries);
    for await (const line of lines(answer)) {
      if (line.event === "error") throw new Error(line.detail);
      if (running !== mine) return;  // superseded
      showLine(line, card, copyOf);
      if (line.event === "certificate" && line.label !== null) {
        certified = { entries, label: line.label, name: line.name, radius: line.radius };
      }
    }
  } catch (error) {
    if (running !== mine) return;
    showError(error);
    at("says").textContent = "Not certified.";
  }
  if (running !== mine) return;
  running = null;
  update();
}

// Attack.

function updateAttack() {
  const { changed, unguarded } = difference(units, certified.entries, input.entries);
  const within = changed <= certified.radius && !unguarded, any = changed > 0 || unguarded;
  at("changed").textContent = `${counted(changed, card)} perturbed; certified radius ${certified.radius}.`;
  at("meter").firstElementChild.style.width = `${Math.min(100, 100 * changed / Math.max(1, 2 * certified.radius))}%`;
  at("meter").classList.toggle("over", !within);
  at("meter").setAttribute("aria-label", `${counted(changed, card)} perturbed, certified radius ${certified.radius}`);
  at("verdict").className = "figure small";
  at("verdict").textContent = any ? "Predicting ..." : HINTS[input.noun] || "Paint on the image.";
  at("why").textContent = !any ? ""
    : unguarded ? "A protected value changed: no guarantee. The answer may change."
      : within ? `Within the radius: the certificate guarantees the answer, whichever ${card.units} you chose.`
        : "Beyond the radius: no guarantee. The answer may change.";
  clearTimeout(predictTimer);
  if (predicting) predicting.abort();
  if (any) predictTimer = setTimeout(() => predict(within), 250);
}

async function predict(within) {
  predicting = new AbortController();
  const mine = predicting, original = certified, samples = Math.min(PREDICT_SAMPLES, card.limits.samples);
  try {
    const asked = card.exact ? {} : { n: samples, alpha: ALPHA };
    const answer = await (await request("v1/predict", { ...input.body(input.entries), ...asked }, mine.signal)).json();
    if (mine !== predicting || original !== certified) return;
    showError(null);
    const moved = answer.label !== null && answer.label !== original.label;
    at("verdict").className = `figure small ${moved ? "moved" : "stayed"}`;
    at("verdict").textContent = answer.label === null ? "Abstained: the vote is too close to call."
      : moved ? `Broken: the answer is now ${answer.name}, not ${original.name}.` : `The answer is still ${answer.name}.`;
    if (moved && within && !card.exact) {
      at("why").textContent = `Within the radius: either the certificate failed (probability at most ${100 * ALPHA}%) or the ` +
        `prediction from ${samples.toLocaleString("en")} votes did (again at most ${100 * ALPHA}%).`;
    } else if (answer.label === null && within) {
      at("why").textContent = `${samples.toLocaleString("en")} votes cannot decide. The certificate is about ` +
        `${card.answer} over all masks, which is the same.`;
    }
  } catch (error) {
    showError(error);
  }
}

// Startup.

function describe() {
  const kept = card.scheme.keep ? `${card.scheme.keep} of ${counted(card.scheme.units, card)} retained per copy` : card.scheme.kind;
  at("model").textContent = `Model ${card.name}: ${kept}, ${card.classes.length} classes` +
    (card.data ? `, trained on ${card.data}` : "") + `, on ${card.device}.`;
  at("fine").textContent = card.exact
    ? "All masks of a fixed set vote: the certificate is deterministic."
    : "Whiskers: anytime-valid bounds on the class probabilities, simultaneous at level " +
      `${100 * (1 - ALPHA)}%. Every radius shown is certified: the certificate is anytime-valid, and fails with ` +
      `probability at most ${100 * ALPHA}%.`;
  at("fine").textContent += ` The answer is ${card.answer}. A certified answer is stable, not necessarily correct.`;
}

function name() {
  const noun = input.noun;
  document.title = at("title").textContent = `Can you break this ${noun}?`;
  at("again").textContent = `Another ${noun}`;
  at("undo").textContent = RESETS[noun] || "Reset pixels";
  for (const part of document.querySelectorAll(".units")) part.textContent = card.units;
  for (const part of document.querySelectorAll(".noun")) part.textContent = noun;
}

async function begin() {
  showError(null);
  try {
    card = await (await request("v1/model")).json();
    const shipped = await (await request("v1/digits")).json();
    describe();
    const text = card.text_unit !== null;
    units = text ? Int32Array.from({ length: MOST_WORDS }, (_, place) => place) : unitsOf(card);
    const image = card.shape.length === 3 && [1, 3].includes(card.shape[0]);
    if (!image && !text && card.shape.length !== 1) {
      showError(new Error(`This page takes images and rows; this model takes ${card.shape.join(" x ")} numbers. Use the API.`));
      return;
    }
    makeVotes(card);
    input = new (text ? Text : image ? Board : Form)(card, units, onChange);
    name();
    at("main").hidden = false;
    input.offer(shipped);
  } catch (error) {
    showError(error);
  }
}

at("certify").addEventListener("click", certify);
at("row").addEventListener("submit", (event) => { event.preventDefault(); if (!certified && !running) certify(); });
at("stop").addEventListener("click", () => { if (running) running.abort(); });
at("undo").addEventListener("click", () => { input.entries = certified.entries.slice(); update(); });
at("again").addEventListener("click", () => { input.entries = certified.entries.slice(); onChange(true); });
onToken(begin);
begin();
