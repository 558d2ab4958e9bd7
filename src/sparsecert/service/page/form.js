// A row of a table as input: a form with its columns. An empty field is a missing value.

import { at } from "./service.js";

const MOST_OPTIONS = 100;  // a longer list is typed, with suggestions

export class Form {
  constructor(card, units, onChange) {
    this.units = units;
    this.names = card.columns || Array.from({ length: card.shape[0] }, (_, number) => `value ${number + 1}`);
    this.named = card.columns !== null;
    this.noun = "row";
    this.original = null;
    this.fields = this.names.map((name, number) => this.field(name, (card.categories || {})[name], units[number] < 0));
    at("row").hidden = false;
    at("sources").remove();
    at("null").remove();
    at("row").addEventListener("input", () => { this.draw(); onChange(!this.original); });
    at("clear").addEventListener("click", () => this.choose());
    this.choose = () => { this.entries = this.names.map(() => null); onChange(true); };
  }

  get title() {
    return this.original ? "Perturb its values" : "Fill in a row";
  }

  field(name, categories, unguarded) {
    const label = document.createElement("label"), span = document.createElement("span");
    const chosen = categories && categories.length <= MOST_OPTIONS;
    const field = document.createElement(chosen ? "select" : "input");
    span.textContent = unguarded ? `${name} (protected)` : name;
    if (chosen) {
      field.append(new Option("missing", ""), ...categories.map((one) => new Option(one, one)));
    } else {
      field.autocomplete = "off";
      field.placeholder = "missing";
      if (!categories) Object.assign(field, { type: "number", step: "any" });
    }
    field.setAttribute("aria-label", span.textContent);
    field.dataset.kind = categories ? "text" : "number";
    label.append(span, field);
    at("fields").append(label);
    return field;
  }

  get entries() {
    return this.fields.map((field) => {
      if (field.validity.badInput) return NaN;  // text where a number belongs; an empty field has no bad input
      if (field.value === "") return null;
      return field.dataset.kind === "number" ? Number(field.value) : field.value;
    });
  }

  set entries(values) {
    values.forEach((value, number) => { this.fields[number].value = value === null ? "" : String(value); });
  }

  set locked(locked) {
    for (const field of this.fields) field.disabled = locked;
  }

  prepare() {
    this.body(this.entries);
    if (this.entries.every((value) => value === null)) throw new Error("The row is empty: fill in at least one value.");
  }

  body(entries) {
    const wrong = entries.findIndex((value) => Number.isNaN(value));
    if (wrong >= 0) throw new Error(`${this.names[wrong]} must be a number, or empty for a missing value.`);
    return this.named ? { row: Object.fromEntries(this.names.map((name, number) => [name, entries[number]])) } : { values: entries };
  }

  copyOf() {
    return (retained) => {
      const kept = new Set(retained), shown = document.createElement("small");
      shown.textContent = this.names.filter((_, number) => this.units[number] < 0 || kept.has(this.units[number])).join(", ");
      return shown;
    };
  }

  draw() {
    const now = this.entries;
    this.fields.forEach((field, number) => {
      field.classList.toggle("differs", this.original !== null && now[number] !== this.original[number]);
    });
  }

  offer() {
    this.choose();
  }
}
