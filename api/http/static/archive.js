// Saves typing on the archive's page; without it the form works just the same.
"use strict";

const form = document.querySelector("#download form");
const told = document.querySelector("#download output");

function address() {
  return `${form.action}?${new URLSearchParams(new FormData(form))}`;
}

function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (bytes >= 1000 && at < units.length - 1) { bytes /= 1000; at += 1; }
  return `${at ? bytes.toFixed(1) : bytes} ${units[at]}`;
}

function tell(text, wrong = false) {
  told.textContent = text;
  told.classList.toggle("wrong", wrong);
}

// One byte is asked for: its head says how long the ZIP is, an error says what is wrong.
async function look(signal) {
  const url = address();
  const answer = await fetch(url, { headers: { Range: "bytes=0-0" }, signal });
  if (answer.status === 206) {
    const name = answer.headers.get("content-disposition").split("filename=")[1];
    const total = Number(answer.headers.get("content-range").split("/")[1]);
    await answer.body.cancel();
    tell(`${name}, ${size(total)} `);
    told.append(copier("Copy link", url), " ", copier("Copy curl command", `curl -fLOJ -C - '${url}'`));
  } else {
    const error = await answer.json();
    const detail = (error.error ?? error).details?.[0];
    tell(detail?.inner || detail?.message || (error.error ?? error).message, true);
  }
}

function copier(label, text) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.textContent = label;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  });
  return button;
}

let looking = new AbortController();
let timer = 0;

function changed() {
  clearTimeout(timer);
  looking.abort();
  looking = new AbortController();
  if (!form.checkValidity()) return;
  const { signal } = looking;
  timer = setTimeout(() => look(signal).catch((error) => {
    if (error.name !== "AbortError") tell("The server does not answer.", true);
  }), 300);
}

if (form) form.addEventListener("input", changed);
