// An image as input: shipped, drawn pixel by pixel, or from a file. Pixels are bytes, channel by channel.

import { at, showError } from "./service.js";
import { asMnist, cropped, inked, noDigit, planesOf } from "./picture.js";

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
    this.drawn = false;    // whether the image is a drawing that nobody has centred yet
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
    const why = this.digits ? noDigit(plane) : null, centre = this.mnist && at("centre").checked;
    if (why) throw new Error(`This looks like no digit: ${why}. Draw one, or pick one below.`);
    if (!this.drawn || !centre) return;
    const { values, note } = asMnist(plane), before = this.entries;
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

  paint(row, column, how) {
    const inside = (y, x) => y >= 0 && x >= 0 && y < this.height && x < this.width;
    if (this.locked || !inside(row, column)) return;
    const place = row * this.width + column, flat = (byte) => Array(this.channels).fill(byte);
    if (this.original) {
      const was = this.bytes(place, this.original);
      this.set(place, { opposite: was.map((byte) => (byte < 128 ? 255 : 0)), white: flat(255), black: flat(0), colour: this.ink(), restore: was }[how]);
    } else if (how === "eraser") {
      this.set(place, flat(0));
    } else {  // a pen about as thick as the strokes of MNIST's digits
      for (const [y, x, share] of [[0, 0, 1], [0, 1, 0.55], [0, -1, 0.55], [1, 0, 0.55], [-1, 0, 0.55], [1, 1, 0.25], [1, -1, 0.25], [-1, 1, 0.25], [-1, -1, 0.25]]) {
        if (!inside(row + y, column + x)) continue;
        const near = place + y * this.width + x;
        if (this.channels > 1) { if (share > 0.5) this.set(near, this.ink()); continue; }
        this.entries[near] = Math.max(this.entries[near], 255 * share);
      }
    }
    if (!this.original) {
      this.drawn = true;
      this.note("");
      this.press(null);
    }
    this.draw();
    this.onChange(false);
  }

  strokeTo(event) {
    const box = board.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / box.height * this.height);
    const column = Math.floor((event.clientX - box.left) / box.width * this.width);
    const [fromRow, fromColumn] = this.painted || [row, column];
    const steps = Math.max(Math.abs(row - fromRow), Math.abs(column - fromColumn), 1);
    for (let step = 1; step <= steps; step++) {
      this.paint(Math.round(fromRow + (row - fromRow) * step / steps), Math.round(fromColumn + (column - fromColumn) * step / steps), tool());
    }
    this.painted = [row, column];
  }

  onKey(event) {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) {
      cursor.row = Math.min(this.height - 1, Math.max(0, cursor.row + move[0]));
      cursor.column = Math.min(this.width - 1, Math.max(0, cursor.column + move[1]));
    } else if (event.key === " " || event.key === "Enter") {
      this.paint(cursor.row, cursor.column, tool());
    } else if (event.key === "Backspace" || event.key === "Delete") {
      this.paint(cursor.row, cursor.column, this.original ? "restore" : "eraser");
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
    board.addEventListener("pointermove", (event) => { if (this.painted) this.strokeTo(event); });
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
