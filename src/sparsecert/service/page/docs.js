// The API description, openapi.json, as a page.

import { at, onToken, request, showError } from "./service.js";

function make(kind, text = "", className = "") {
  return Object.assign(document.createElement(kind), { textContent: text, className });
}

function resolve(schema, whole) {
  return schema && schema.$ref ? schema.$ref.slice(2).split("/").reduce((part, key) => part[key], whole) : schema;
}

function typeOf(schema, whole) {
  const found = resolve(schema, whole);
  if (found.anyOf) return found.anyOf.map((one) => typeOf(one, whole)).join(" or ");
  if (found.const !== undefined) return JSON.stringify(found.const);
  if (found.enum) return found.enum.join(" | ");
  if (found.type === "array" && found.items) return `list of ${typeOf(found.items, whole)}`;
  const ends = [found.minimum, found.exclusiveMaximum ?? found.maximum];
  const range = [ends[0] === undefined ? "" : `from ${ends[0]}`, ends[1] === undefined ? "" : `${found.maximum === undefined ? "below" : "to"} ${ends[1]}`];
  return [found.format || found.title && found.properties && found.title || found.type || "anything", ...range].filter(Boolean).join(" ");
}

function table(fields, heads) {
  const made = make("table", "", "fields"), head = made.createTHead().insertRow();
  for (const name of heads) head.append(Object.assign(make("th", name), { scope: "col" }));
  const body = made.createTBody();
  for (const [name, ...cells] of fields) {
    const row = body.insertRow();
    row.append(Object.assign(make("th"), { scope: "row" }));
    row.cells[0].append(make("code", name));
    for (const text of cells) row.insertCell().textContent = text;
  }
  const scrolled = make("div", "", "scrolled");
  scrolled.append(made);
  return scrolled;
}

function properties(schema, whole) {
  const found = resolve(schema, whole);
  return Object.entries(found.properties || {}).map(([name, one]) =>
    [name, typeOf(one, whole), one.default === undefined || one.default === null ? "" : String(one.default), one.description || ""]);
}

function contents(content, whole) {
  return Object.entries(content || {}).flatMap(([kind, { schema }]) => {
    const fields = properties(schema && schema.type === "array" ? schema.items : schema || {}, whole);
    return [make("p", kind, "note"), ...(fields.length ? [table(fields, ["field", "type", "default", ""])] : [])];
  });
}

function section(path, method, operation, whole) {
  const made = make("section"), title = make("h2");
  title.append(make("code", `${method.toUpperCase()} ${path}`), ` ${operation.summary}`);
  made.append(title);
  if (operation.parameters) {
    const fields = operation.parameters.map((one) => [one.name, typeOf(one.schema, whole), String(one.schema.default ?? ""), one.description || one.schema.description || ""]);
    made.append(make("h3", "Query"), table(fields, ["name", "type", "default", ""]));
  }
  if (operation.requestBody) made.append(make("h3", "Body"), ...contents(operation.requestBody.content, whole));
  const answer = contents(operation.responses[200].content, whole);
  if (answer.length) made.append(make("h3", "Answer"), ...answer);
  const errors = Object.entries(operation.responses).filter(([status]) => status !== "200");
  if (errors.length) made.append(make("h3", "Errors"), table(errors.map(([status, one]) => [status, one.description]), ["status", ""]));
  return made;
}

async function begin() {
  showError(null);
  try {
    const whole = await (await request("openapi.json")).json();
    at("about").textContent = `${whole.info.title} ${whole.info.version}. ${whole.info.description}`;
    at("paths").replaceChildren(...Object.entries(whole.paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => section(path, method, operation, whole))));
  } catch (error) {
    showError(error);
  }
}

onToken(begin);
begin();
