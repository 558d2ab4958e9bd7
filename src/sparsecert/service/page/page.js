"use strict";
// The page: an image, its certificate as the votes come in, and the prediction for a perturbed image.
// Every radius shown is certified: the service samples sequentially and reports anytime-valid radii.

const ALPHA = 0.05, MAX_SAMPLES = 6000, PREDICT_SAMPLES = 1000, COPIES_SHOWN = 18, COPIES_WAITING = 36;
const CALM = matchMedia("(prefers-reduced-motion: reduce)").matches;
const at = (id) => document.getElementById(id);
const board = at("board"), cursor = { row: 0, column: 0, shown: false };

let card = null;            // the model's card
let height = 0, width = 0;
let image = null;           // Float32Array: the current pixels
let certified = null;       // {pixels, label, name, radius} of the certified image
let running = null;         // AbortController of the running certification
let predicting = null;          // AbortController of the running prediction
let predictTimer = 0, waiting = [], shower = 0, painted = null;

// Requests.

async function request(path, body, signal) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const method = body ? "POST" : "GET";
  const answer = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  if (answer.ok) return answer;
  const { detail } = await answer.json().catch(() => ({ detail: answer.statusText }));
  if (answer.status === 401) at("token-form").hidden = false;
  if (answer.status === 429) {
    await new Promise((later) => setTimeout(later, 1000 * Number(answer.headers.get("Retry-After") || 1)));
    if (!signal || !signal.aborted) return request(path, body, signal);
  }
  throw new Error(detail);
}

function showError(error) {
  if (error && error.name === "AbortError") return;
  at("trouble").textContent = error ? error.message : "";
  at("trouble").hidden = !error;
}

function nested() {
  return [Array.from({ length: height }, (_, row) => Array.from(image.subarray(row * width, (row + 1) * width)))];
}

// Drawing.

function pixelsOnto(canvas, values, retained) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d"), shown = context.createImageData(width, height);
  const kept = retained && new Set(retained), [r, g, b] = retained ? nullColour() : [0, 0, 0];
  values.forEach((value, unit) => {
    const grey = Math.round(255 * value), hidden = kept && !kept.has(unit);
    shown.data.set(hidden ? [r, g, b, 255] : [grey, grey, grey, 255], 4 * unit);
  });
  context.putImageData(shown, 0, 0);
}

function nullColour() {
  const hex = getComputedStyle(document.documentElement).getPropertyValue("--null").trim();
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

function drawBoard() {
  const scale = 16, context = board.getContext("2d");
  board.width = scale * width;
  board.height = scale * height;
  image.forEach((value, unit) => {
    const grey = Math.round(255 * value), x = scale * (unit % width), y = scale * Math.floor(unit / width);
    context.fillStyle = `rgb(${grey} ${grey} ${grey})`;
    context.fillRect(x, y, scale, scale);
    if (certified && value !== certified.pixels[unit]) {
      context.strokeStyle = "#ff8c1a";
      context.lineWidth = 3;
      context.strokeRect(x + 1.5, y + 1.5, scale - 3, scale - 3);
    }
  });
  if (cursor.shown) {
    context.strokeStyle = "#00b7ff";
    context.lineWidth = 4;
    context.strokeRect(scale * cursor.column + 1, scale * cursor.row + 1, scale - 2, scale - 2);
  }
}

function tool() {
  return document.querySelector("input[name=tool]:checked").value;
}

function paint(row, column, how) {
  if (running || row < 0 || column < 0 || row >= height || column >= width) return;
  const unit = row * width + column;
  if (certified) {
    const was = certified.pixels[unit];
    image[unit] = { opposite: was < 0.5 ? 1 : 0, white: 1, black: 0, restore: was }[how];
  } else if (how === "eraser") {
    image[unit] = 0;
  } else {  // a pen about as thick as the shipped digits' strokes
    for (let y = -1; y <= 1; y++) {
      for (let x = -1; x <= 1; x++) {
        if (row + y < 0 || column + x < 0 || row + y >= height || column + x >= width) continue;
        const near = unit + y * width + x, ink = [1, 0.55, 0.25][Math.abs(x) + Math.abs(y)];
        image[near] = Math.max(image[near], ink);
      }
    }
  }
  drawBoard();
  if (certified) updateAttack();
  else press(null);
}

function place(event) {
  const box = board.getBoundingClientRect();
  return [Math.floor((event.clientY - box.top) / box.height * height),
    Math.floor((event.clientX - box.left) / box.width * width)];
}

function strokeTo(event) {
  const [row, column] = place(event), [fromRow, fromColumn] = painted || [row, column];
  const steps = Math.max(Math.abs(row - fromRow), Math.abs(column - fromColumn), 1);
  for (let step = 1; step <= steps; step++) {
    paint(Math.round(fromRow + (row - fromRow) * step / steps),
      Math.round(fromColumn + (column - fromColumn) * step / steps), tool());
  }
  painted = [row, column];
}

function onKey(event) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const move = moves[event.key];
  if (move) {
    cursor.row = Math.min(height - 1, Math.max(0, cursor.row + move[0]));
    cursor.column = Math.min(width - 1, Math.max(0, cursor.column + move[1]));
  } else if (event.key === " " || event.key === "Enter") {
    paint(cursor.row, cursor.column, tool());
  } else if (event.key === "Backspace" || event.key === "Delete") {
    paint(cursor.row, cursor.column, certified ? "restore" : "eraser");
  } else {
    return;
  }
  event.preventDefault();
  cursor.shown = true;
  drawBoard();
  const value = image[cursor.row * width + cursor.column];
  at("cursor").textContent =
    `row ${cursor.row + 1}, column ${cursor.column + 1}: ${Math.round(100 * value)}% white`;
}

// Selection.

function press(chosen) {
  for (const button of at("digits").children) button.setAttribute("aria-pressed", String(button === chosen));
}

function choose(values, button) {
  if (running) running.abort();
  running = null;
  image = Float32Array.from(values);
  certified = null;
  press(button);
  updateControls();
  drawBoard();
}

function offer(digits) {
  for (const digit of digits) {
    const button = document.createElement("button"), small = document.createElement("canvas");
    const values = digit.values.map((value) => value / 255);
    button.type = "button";
    button.setAttribute("aria-label", `digit ${digit.number}, a ${digit.name}`);
    button.setAttribute("aria-pressed", "false");
    pixelsOnto(small, values);
    button.append(small);
    button.addEventListener("click", () => choose(values, button));
    at("digits").append(button);
  }
}

function updateControls() {
  const breaking = certified !== null;
  document.querySelectorAll(".drawing").forEach((part) => { part.hidden = breaking; });
  document.querySelectorAll(".breaking").forEach((part) => { part.hidden = !breaking; });
  document.querySelector(`input[value=${breaking ? "opposite" : "pen"}]`).checked = true;
  at("image-title").textContent = breaking ? "Perturb its pixels" : "Pick a digit or draw one";
  at("main").classList.toggle("attacking", breaking);
  at("certify").hidden = breaking || running !== null;
  at("stop").hidden = running === null;
  at("attacked").hidden = !breaking;
  at("invite").hidden = breaking;
  if (breaking) updateAttack();
}

// Certification.

function settings() {
  const common = { values: nested(), stream: true, copies: 4 };
  if (card.exact) return { ...common, against: "pixels" };  // what a stroke perturbs, whatever the masks are for
  return { ...common, sampling: "sequential", max_samples: MAX_SAMPLES, n0: 500, tolerance: 0, alpha: ALPHA };
}

async function certify() {
  showError(null);
  const mine = new AbortController();
  running = mine;
  const pixels = Float32Array.from(image);
  at("copies").replaceChildren();
  at("radius").textContent = "\u2013";
  at("says").textContent = "Counting votes ...";
  updateControls();
  if (at("proof").getBoundingClientRect().top > innerHeight - 200) {
    at("proof").scrollIntoView({ behavior: CALM ? "auto" : "smooth" });
  }
  try {
    const answer = await request("/v1/certify", settings(), mine.signal);
    for await (const line of lines(answer)) handleLine(line, pixels);
  } catch (error) {
    showError(error);
    at("says").textContent = "Not certified.";
  }
  if (running !== mine) return;  // superseded
  running = null;
  updateControls();
  drawBoard();
}

async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

function handleLine(line, pixels) {
  if (line.event === "error") throw new Error(line.detail);
  const last = line.event === "certificate";
  if (!last) {
    at("samples").max = line.most;
    at("samples").value = line.samples;
    showVotes(line.votes, line.bounds);
    queueCopies(line.copies, pixels, leader(line.votes) ?? leader(line.selection));
  } else {
    at("samples").value = at("samples").max;
  }
  at("counted").textContent = `${line.samples.toLocaleString("en")} ablated copies classified` +
    (last ? "" : ` of at most ${line.most.toLocaleString("en")}`);
  showRadius(line, last);
  if (last && line.label !== null) {
    certified = { pixels, label: line.label, name: line.name, radius: line.radius };
  }
}

function showRadius(line, last) {
  const name = line.label === null ? "" : card.classes[line.label];
  at("radius").textContent = line.radius === null ? "\u2013" : String(line.radius);
  if (line.radius === null) {
    at("says").textContent = last ? "Nothing certified: the vote is too close."
      : card.exact ? "All masks vote; the certificate comes with the last one." : "Nothing certified yet.";
    return;
  }
  const many = `${line.radius} ${line.radius === 1 ? "pixel" : "pixels"}`;
  const proved = line.radius === 0 ? "certified, but a single perturbed pixel might change it"
    : `no perturbation of up to ${many} changes it`;
  at("says").textContent = `${last ? "Certified" : "Certified so far"}. The answer is ${name}: ${proved}.`;
}

function leader(votes) {
  const most = Math.max(...votes);
  return most > 0 ? votes.indexOf(most) : null;
}

function makeVotes() {
  for (const name of card.classes) {
    const row = at("votes").tBodies[0].insertRow(), head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawing.setAttribute("viewBox", "0 0 100 10");
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("role", "img");
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

// Copies arrive faster than the eye follows: queue some and show them one by one.

function queueCopies(copies, pixels, first) {
  for (const copy of copies) waiting.push({ ...copy, pixels, first });
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
  const item = document.createElement("li"), canvas = document.createElement("canvas");
  const name = copy.label === null ? "?" : card.classes[copy.label];
  pixelsOnto(canvas, copy.pixels, copy.retained);
  item.classList.toggle("other", copy.label !== copy.first);
  item.append(canvas, name);
  at("copies").prepend(item);
  while (at("copies").children.length > COPIES_SHOWN) at("copies").lastChild.remove();
}

// Attack.

function updateAttack() {
  const changed = image.reduce((sum, value, unit) => sum + (value !== certified.pixels[unit]), 0);
  const within = changed <= certified.radius;
  at("changed").textContent = `${changed} ${changed === 1 ? "pixel" : "pixels"} perturbed; certified radius ${certified.radius}.`;
  at("meter").firstElementChild.style.width = `${Math.min(100, 100 * changed / Math.max(1, 2 * certified.radius))}%`;
  at("meter").classList.toggle("over", !within);
  at("meter").setAttribute("aria-label", `${changed} perturbed pixels, certified radius ${certified.radius}`);
  at("verdict").className = "figure small";
  at("verdict").textContent = changed ? "Predicting ..." : "Paint on the image.";
  at("why").textContent = !changed ? ""
    : within ? "Within the radius: the certificate guarantees the answer, whichever pixels you chose."
      : "Beyond the radius: no guarantee. The answer may change.";
  clearTimeout(predictTimer);
  if (predicting) predicting.abort();
  if (changed) predictTimer = setTimeout(() => predict(changed, within), 250);
}

async function predict(changed, within) {
  predicting = new AbortController();
  const mine = predicting, original = certified;
  try {
    const asked = card.exact ? {} : { n: PREDICT_SAMPLES, alpha: ALPHA };
    const answer = await (await request("/v1/predict", { values: nested(), ...asked }, mine.signal)).json();
    if (mine !== predicting || original !== certified) return;
    const moved = answer.label !== null && answer.label !== original.label;
    at("verdict").className = `figure small ${moved ? "moved" : "stayed"}`;
    at("verdict").textContent = answer.label === null ? "Abstained: the vote is too close to call."
      : moved ? `Broken: the answer is now ${answer.name}, not ${original.name}.` : `The answer is still ${answer.name}.`;
    if (moved && within && !card.exact) {
      at("why").textContent = `Within the radius: either the certificate failed (probability at most ${100 * ALPHA}%) or the ` +
        `prediction from ${PREDICT_SAMPLES.toLocaleString("en")} votes did (again at most ${100 * ALPHA}%).`;
    } else if (answer.label === null && within) {
      at("why").textContent = `${PREDICT_SAMPLES.toLocaleString("en")} votes cannot decide. The certificate is about ` +
        `${card.answer} over all masks, which is the same.`;
    }
  } catch (error) {
    showError(error);
  }
}

// Startup.

function drawable() {
  const [channels, rows, columns] = card.shape;
  return card.shape.length === 3 && channels === 1 && (card.scheme.units ?? rows * columns) === rows * columns && rows <= 64 && columns <= 64;
}

async function begin() {
  showError(null);
  try {
    card = await (await request("/v1/model")).json();
    const digits = await (await request("/v1/digits")).json();
    at("token-form").hidden = true;
    const kept = card.scheme.keep ? `${card.scheme.keep} of ${card.scheme.units} ${card.columns ? "features" : "pixels"} retained per copy` : card.scheme.kind;
    at("model").textContent = `Model ${card.name}: ${kept}, ${card.classes.length} classes` +
      (card.data ? `, trained on ${card.data}` : "") + `, on ${card.device}.`;
    if (!drawable()) {
      showError(new Error(`This page is for small greyscale images; this model takes ${card.columns ? "rows of a table" : "others"}. Use the API.`));
      return;
    }
    [, height, width] = card.shape;
    at("fine").textContent = card.exact
      ? "All masks of a fixed set vote: the certificate is deterministic."
      : "Whiskers: anytime-valid bounds on the class probabilities, simultaneous at level " +
        `${100 * (1 - ALPHA)}%. Every radius shown is certified: the certificate is anytime-valid, and fails with ` +
        `probability at most ${100 * ALPHA}%.`;
    at("fine").textContent += ` The answer is ${card.answer}. A certified answer is stable, not necessarily correct.`;
    makeVotes();
    offer(digits);
    at("main").hidden = false;
    const first = at("digits").firstElementChild;
    if (first) first.click();
    else choose(new Float32Array(height * width), null);
  } catch (error) {
    showError(error);
  }
}

board.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  board.setPointerCapture(event.pointerId);
  cursor.shown = false;
  painted = null;
  strokeTo(event);
});
board.addEventListener("pointermove", (event) => { if (painted) strokeTo(event); });
for (const end of ["pointerup", "pointercancel"]) board.addEventListener(end, () => { painted = null; });
board.addEventListener("keydown", onKey);
board.addEventListener("blur", () => { cursor.shown = false; at("cursor").textContent = ""; if (image) drawBoard(); });
at("certify").addEventListener("click", certify);
at("stop").addEventListener("click", () => { if (running) running.abort(); });
at("clear").addEventListener("click", () => choose(new Float32Array(height * width), null));
at("undo").addEventListener("click", () => { image = Float32Array.from(certified.pixels); drawBoard(); updateAttack(); });
at("again").addEventListener("click", () => {
  at("radius").textContent = "\u2013";
  at("says").textContent = "Not certified yet.";
  choose(certified.pixels, null);
});
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value);
  begin();
});
begin();
