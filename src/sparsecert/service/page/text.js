// A text as input: typed, then struck word by word. A struck word is replaced, so that the number of words stays.

import { at } from "./service.js";

const SPLITS = { word: /\S+/gu, token: /[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]/gu };

export class Text {
  constructor(card, units, onChange) {
    this.split = SPLITS[card.text_unit];
    this.noun = "text";
    this.original = null;
    this.struck = [];
    this.onChange = onChange;
    at("text").hidden = false;
    at("sources").remove();
    at("null").remove();
    at("typed").addEventListener("input", () => onChange(true));
    at("instead").addEventListener("input", () => { this.replaceStruck(); onChange(false); });
    at("clear").addEventListener("click", () => { at("typed").value = ""; onChange(true); });
  }

  get title() {
    return this.original ? "Strike its words" : "Type a text";
  }

  get entries() {
    return this.original ? this.struck : at("typed").value.match(this.split) || [];
  }

  set entries(words) {
    if (this.original) this.struck = words.slice();
  }

  set locked(locked) {
    at("typed").disabled = locked;
  }

  get instead() {
    return (at("instead").value.match(this.split) || ["\u2026"])[0];
  }

  strike(place) {
    const struck = this.struck[place] !== this.original[place];
    this.struck[place] = struck ? this.original[place] : this.instead;
    this.draw();
    this.onChange(false);
  }

  replaceStruck() {
    if (!this.original) return;
    this.struck = this.struck.map((word, place) => (word === this.original[place] ? word : this.instead));
    this.draw();
  }

  prepare() {
    if (!this.entries.length) throw new Error("The text is empty: type at least one word.");
  }

  body(entries) {
    return { text: entries.join(" ") };
  }

  copyOf(entries) {
    return (retained) => {
      const shown = document.createElement("small");
      shown.textContent = retained.map((place) => entries[place]).join(" \u2026 ");
      return shown;
    };
  }

  draw() {
    const breaking = this.original !== null;
    if (breaking && this.struck.length !== this.original.length) this.struck = this.original.slice();
    at("typed").hidden = breaking;
    at("words").replaceChildren(...(breaking ? this.original.map((word, place) => this.button(word, place)) : []));
  }

  button(word, place) {
    const button = document.createElement("button"), struck = this.struck[place] !== word;
    button.type = "button";
    button.textContent = word;
    button.setAttribute("aria-pressed", String(struck));
    button.classList.toggle("struck", struck);
    button.addEventListener("click", () => this.strike(place));
    return button;
  }

  offer() {
    this.onChange(true);
  }
}
