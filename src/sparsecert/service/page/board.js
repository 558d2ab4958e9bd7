// An image as input: shipped, drawn pixel by pixel, or from a file. Pixels are bytes, channel by channel.

import { at, showError } from "./service.js";
import { asMnist, cropped, inked, noDigit, penned, penOf, planesOf, redrawn } from "./picture.js";

const STEP = 0.1;  // pixels from dot to dot of a stroke
const board = at("board"), cursor = { row: 0, column: 0, shown: false };
const tool = () => document.querySelector("input[name=tool]:checked").value;

export class Board {
  constructor(card, units, onChange) {
    [this.channels, this.height, this.width] = card.shape;
    this.units = units;
    this.onChange = onChange;  // called when the image changes; its argument tells whether it is another image
    this.places = this.height * this.width;
    this.digits = this.channels === 1 && card.classes.join() === "0,1,2,3,4,5,6,7,8,9";
    this.mnist = this.digits && this.height === 28 && this.width === 28;
    this.noun = this.digits ? "digit" : "image";
    this.locked = false;
    this.original = null;  // the certified pixels, while they are being perturbed
    this.painted = null;
    this.drawn = false;    // whether the image is a drawing that nobody has centred yet: dots on paper
    this.dots = [];
    this.paper = null;
    this.entries = new Uint8ClampedArray(this.channels * this.places);
    at("image").hidden = false;
    at("centring").hidden = !this.mnist;
    at("colour-tools").hidden = this.channels === 1;
    board.style.aspectRatio = `${this.width} / ${this.height}`;
    this.listen();
  }

  get title() {
    return this.original ? "Perturb its pixels" : `Pick a${this.noun === "image" ? "n" : ""} ${this.noun}, draw or drop one`;
  }

  body(entries) {
    const { channels, height, width, places } = this;
    return { values: Array.from({ length: channels }, (_, channel) => Array.from({ length: height }, (_, row) => {
      const start = channel * places + row * width;
      return Array.from(entries.subarray(start, start + width), (byte) => byte / 255);
    })) };
  }

  offer(shipped) {
    for (const one of shipped) {
      const button = document.createElement("button"), small = document.createElement("canvas");
      const values = Uint8ClampedArray.from(one.values);
      button.type = "button";
      button.setAttribute("aria-label", `${this.noun} ${one.number}, a ${one.name}`);
      this.onto(small, values);
      button.append(small);
      button.addEventListener("click", () => this.choose(values, "", button));
      at("digits").append(button);
    }
    const first = at("digits").firstElementChild;
    if (first) first.click();
    else this.choose(this.entries, this.digits ? "" : "Drop a picture here, choose a file, or paint.");
  }

  choose(values, note, button = null) {
    this.entries = Uint8ClampedArray.from(values);
    this.drawn = false;
    this.note(note);
    this.press(button);
    this.onChange(true);
  }

  press(chosen) {
    for (const button of at("digits").children) button.setAttribute("aria-pressed", String(button === chosen));
  }

  note(text, before = null) {
    at("done").textContent = text;
    at("before").hidden = !before;
    if (before) this.onto(at("before").querySelector("canvas"), before);
  }

  async load(file) {
    const { planes, size, same } = await planesOf(file, this.channels);
    const name = `${file.name}, ${size} pixels`, fits = same(this.width, this.height);
    if (!this.mnist || !at("centre").checked) {
      const values = fits ? planes.flatMap((plane) => Array.from(plane.values)) : cropped(planes, this.width, this.height);
      this.choose(values, fits ? `${name}: as it is.` : `${name}: its middle, resized to ${this.width} x ${this.height}.`);
      return;
    }
    const { plane, light } = inked(planes[0]), why = noDigit(plane);
    if (why) throw new Error(`${file.name} looks like no digit: ${why}.`);
    const { values, note } = asMnist(plane);
    this.choose(values, `${name}. ${light ? "Inverted. " : ""}${note || "As it is."}`);
  }

  // Makes a drawing ready to be certified; throws if it looks like no digit.
  prepare() {
    const plane = { values: this.entries, width: this.width, height: this.height };
    const strokes = this.drawn && this.mnist && this.paper.every((byte) => byte === 0);
    const made = () => (strokes ? redrawn(this.dots) : asMnist(plane));
    const why = this.digits ? noDigit(plane, made) : null, centre = this.mnist && at("centre").checked;
    if (why) throw new Error(`This looks like no digit: ${why}. Draw one, or pick one below.`);
    if (!this.drawn || !centre) return;
    const { values, note } = made(), before = this.entries;
    this.entries = values;
    this.drawn = false;
    this.note(note, note ? before : null);
  }

  copyOf(entries) {
    return (retained) => {
      const canvas = document.createElement("canvas");
      this.onto(canvas, entries, new Set(retained));
      return canvas;
    };
  }

  onto(canvas, values, retained) {
    canvas.width = this.width;
    canvas.height = this.height;
    const context = canvas.getContext("2d"), shown = context.createImageData(this.width, this.height);
    const ablated = retained && nullColour();
    for (let place = 0; place < this.places; place++) {
      for (let channel = 0; channel < 3; channel++) {
        const entry = place + (channel % this.channels) * this.places, unit = this.units[entry];
        shown.data[4 * place + channel] = retained && unit >= 0 && !retained.has(unit) ? ablated[channel] : values[entry];
      }
      shown.data[4 * place + 3] = 255;
    }
    context.putImageData(shown, 0, 0);
  }

  draw() {
    const scale = Math.max(1, Math.floor(448 / this.width)), context = board.getContext("2d");
    const small = document.createElement("canvas");
    this.onto(small, this.entries);
    board.width = scale * this.width;
    board.height = scale * this.height;
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, board.width, board.height);
    const frame = (place, colour, line) => {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(scale * (place % this.width) + line / 2, scale * Math.floor(place / this.width) + line / 2, scale - line, scale - line);
    };
    if (this.original) {
      for (let place = 0; place < this.places; place++) {
        if (this.bytes(place).some((byte, channel) => byte !== this.original[place + channel * this.places])) frame(place, "#ff8c1a", Math.min(3, scale / 4));
      }
    }
    if (cursor.shown) frame(cursor.row * this.width + cursor.column, "#00b7ff", Math.min(4, scale / 3));
  }

  bytes(place, values = this.entries) {
    return Array.from({ length: this.channels }, (_, channel) => values[place + channel * this.places]);
  }

  set(place, bytes) {
    bytes.forEach((byte, channel) => { this.entries[place + channel * this.places] = byte; });
  }

  ink() {
    const hex = at("colour").value;
    return this.channels === 1 ? [255] : [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
  }

  // Paints at points [x, y], in pixels of the image.
  paint(points, how) {
    const inside = points.filter(([x, y]) => x >= 0 && y >= 0 && x < this.width && y < this.height);
    if (this.locked || !inside.length) return;
    if (this.original) inside.forEach(([x, y]) => this.perturb(Math.floor(y) * this.width + Math.floor(x), how));
    else this.sketch(inside, how);
    this.draw();
    this.onChange(false);
  }

  perturb(place, how) {
    const was = this.bytes(place, this.original), flat = (byte) => Array(this.channels).fill(byte);
    this.set(place, { opposite: was.map((byte) => (byte < 128 ? 255 : 0)), white: flat(255), black: flat(0), colour: this.ink(), restore: was }[how]);
  }

  sketch(points, how) {
    const pen = penOf(this.height), { width, height } = this;
    if (!this.drawn) [this.drawn, this.dots, this.paper] = [true, [], this.entries.slice()];
    if (this.channels > 1) {
      const colour = how === "eraser" ? [0, 0, 0] : this.ink();
      penned(points, pen, width, height).forEach((byte, place) => { if (byte > 127) this.set(place, colour); });
    } else {
      if (how === "eraser") {
        this.dots = this.dots.filter(([x, y]) => points.every(([u, v]) => Math.hypot(x - u, y - v) > pen));
        for (const [x, y] of points) this.paper[Math.floor(y) * width + Math.floor(x)] = 0;
      } else {
        this.dots.push(...points);
      }
      this.entries = penned(this.dots, pen, width, height, this.paper);
    }
    this.note("");
    this.press(null);
  }

  strokeTo(event) {
    const box = board.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * this.width, y = (event.clientY - box.top) / box.height * this.height;
    const [fromX, fromY] = this.painted || [x, y], far = Math.max(Math.abs(x - fromX), Math.abs(y - fromY));
    const steps = Math.max(1, Math.ceil(far / (this.original ? 1 : STEP)));
    this.paint(Array.from({ length: steps }, (_, step) => [x, y].map((to, axis) => {
      const from = [fromX, fromY][axis];
      return from + (to - from) * (step + 1) / steps;
    })), tool());
    this.painted = [x, y];
  }

  onKey(event) {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) {
      cursor.row = Math.min(this.height - 1, Math.max(0, cursor.row + move[0]));
      cursor.column = Math.min(this.width - 1, Math.max(0, cursor.column + move[1]));
    } else if (event.key === " " || event.key === "Enter") {
      this.paint([[cursor.column + 0.5, cursor.row + 0.5]], tool());
    } else if (event.key === "Backspace" || event.key === "Delete") {
      this.paint([[cursor.column + 0.5, cursor.row + 0.5]], this.original ? "restore" : "eraser");
    } else {
      return;
    }
    event.preventDefault();
    cursor.shown = true;
    this.draw();
    const shares = this.bytes(cursor.row * this.width + cursor.column).map((byte) => `${Math.round(byte / 2.55)}%`);
    at("cursor").textContent = `row ${cursor.row + 1}, column ${cursor.column + 1}: ` +
      (this.channels === 1 ? `${shares[0]} white` : `red ${shares[0]}, green ${shares[1]}, blue ${shares[2]}`);
  }

  listen() {
    board.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      board.setPointerCapture(event.pointerId);
      cursor.shown = false;
      this.painted = null;
      this.strokeTo(event);
    });
    board.addEventListener("pointermove", (event) => {
      if (!this.painted) return;
      for (const one of [...event.getCoalescedEvents?.() ?? [], event]) this.strokeTo(one);  // a fast pen moves more often than frames are drawn
    });
    for (const end of ["pointerup", "pointercancel"]) board.addEventListener(end, () => { this.painted = null; });
    board.addEventListener("keydown", (event) => this.onKey(event));
    board.addEventListener("blur", () => { cursor.shown = false; at("cursor").textContent = ""; this.draw(); });
    at("clear").addEventListener("click", () => this.choose(new Uint8ClampedArray(this.entries.length), ""));
    const open = (file) => { showError(null); if (file) this.load(file).catch(showError); };
    at("file").addEventListener("change", () => { open(at("file").files[0]); at("file").value = ""; });
    addEventListener("dragover", (event) => { event.preventDefault(); board.classList.add("dropping"); });
    for (const end of ["dragleave", "drop"]) addEventListener(end, () => board.classList.remove("dropping"));
    addEventListener("drop", (event) => { event.preventDefault(); open(event.dataTransfer.files[0]); });
  }
}

function nullColour() {
  const hex = getComputedStyle(document.documentElement).getPropertyValue("--null").trim();
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}
