// Lists the operations of openapi.json and tries them.
"use strict";

const base = document.body.dataset.base;
const SHOWN = 20000; // characters of an answer

function make(name, attributes = {}, ...content) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...content);
  return element;
}

function field(parameter) {
  const { name, schema, required } = parameter;
  let input;
  if (schema.enum || schema.type === "boolean") {
    const values = schema.enum ?? ["true", "false"];
    input = make("select", { name }, make("option", { value: "" }, "–"),
      ...values.map((value) => make("option", { value }, value)));
  } else {
    input = make("input", { name, placeholder: schema.type });
  }
  input.required = required;
  return make("label", {}, `${name}${required ? " (required)" : ""}`, input,
    make("small", {}, parameter.description));
}

function address(path, parameters, data) {
  const query = new URLSearchParams();
  for (const parameter of parameters) {
    const value = data.get(parameter.name);
    if (!value) continue;
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else query.set(parameter.name, value);
  }
  return base + path + (query.size ? `?${query}` : "");
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // not one JSON document: lines of a stream, or plain text
  }
}

async function show(url, output, stop) {
  const started = performance.now();
  const answer = await fetch(url, { signal: stop });
  const head = make("p", {}, `${answer.status} after ${Math.round(performance.now() - started)} ms`);
  const type = answer.headers.get("content-type");
  if (type.startsWith("application/zip")) {
    await answer.body.cancel();
    output.replaceChildren(head, make("a", { href: url }, "Download"));
    return;
  }
  const body = make("pre");
  output.replaceChildren(head, body);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    text += part.value;
    if (text.length > SHOWN) break;
    body.textContent = pretty(text);
  }
  body.textContent = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : pretty(text);
  reader.cancel();
}

// A JSON Schema as the JSON that it allows, with types in the place of values.
function shape(schema, schemas, indent = "", above = []) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    if (above.includes(name)) return name;
    return shape(schemas[name], schemas, indent, [...above, name]);
  }
  const choice = schema.oneOf ?? schema.anyOf;
  if (choice) return choice.map((one) => shape(one, schemas, indent, above)).join(" or ");
  if (schema.type === "array") return `[${shape(schema.items, schemas, indent, above)}, …]`;
  if (schema.type !== "object") {
    return [schema.type].flat().join(" or ") + (schema.pattern ? ` like ${schema.pattern}` : "");
  }
  const deeper = `${indent}  `;
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) =>
    `${deeper}"${name}"${schema.required?.includes(name) ? "" : " (may be absent)"}: ${shape(field, schemas, deeper, above)}`);
  return `{\n${fields.join(",\n")}\n${indent}}`;
}

function answers(responses, schemas) {
  const list = make("dl");
  for (const [status, { description, content, headers }] of Object.entries(responses)) {
    const body = make("dd", {}, description);
    if (headers) body.append(`, with the headers ${Object.keys(headers).join(" and ")}`);
    for (const [type, { schema }] of Object.entries(content ?? {})) {
      body.append(make("pre", {}, type === "application/json" ? shape(schema, schemas) : type));
    }
    list.append(make("div", {}, make("dt", {}, status), body));
  }
  return make("details", {}, make("summary", {}, "What it answers"), list);
}

function operation(path, { summary, parameters, responses }, schemas) {
  const form = make("form", {}, ...parameters.map(field), make("button", {}, "Send"));
  const link = make("p", {}, make("code"));
  const output = make("div");
  let stop = new AbortController();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    stop.abort();
    stop = new AbortController();
    const url = address(path, parameters, new FormData(form));
    link.firstChild.textContent = `curl '${new URL(url, location.href)}'`;
    try {
      await show(url, output, stop.signal);
    } catch (error) {
      if (error.name !== "AbortError") output.replaceChildren(make("p", {}, String(error)));
    }
  });
  return make("details", { id: path },
    make("summary", {}, make("b", {}, make("code", {}, path)), make("span", {}, summary)),
    form, link, output, answers(responses, schemas));
}

async function start() {
  const description = await (await fetch(`${base}/openapi.json`)).json();
  document.querySelector("#intro").textContent = description.info.description;
  document.querySelector("#operations").replaceChildren(
    ...Object.entries(description.paths).map(([path, item]) => operation(path, item.get, description.components.schemas)));
}

start();
