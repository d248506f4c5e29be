/** Calls a flaky origin at a steady rate through a policy, and draws what comes of it. */

import { Engine, policy, ready } from "tidegate";
import { Chart } from "./chart.js";

const SERIES = {
  attempts: { colour: "#c65d21", label: "attempts a second" },
  goodput: { colour: "#17745a", label: "goodput: answers a second" },
  limit: { colour: "#3c5fb0", label: "ten times the limit of calls in flight" },
};
const SCALE = 10;
const EVERY_MS = 500;
const ROUTE = "work";

const engine = new Engine();
const together = { engine, deadline: 2000, attemptTimeout: 700 };
const policies = {
  tidegate: policy({
    ...together,
    name: "tidegate",
    preset: "http",
    // A browser opens six connections to an origin: what is more would wait where nobody sees it.
    bulkhead: {
      kind: "aimd",
      maxConcurrency: 6,
      latencyThreshold: 150,
      backoffRatio: 0.7,
      cutInterval: 300,
      maxQueue: 20,
      acquireTimeout: 300,
    },
  }),
  naive: policy({
    ...together,
    name: "naive",
    retry: { maxAttempts: 3, budget: "none", backoff: { base: 50, max: 50, jitter: "none" } },
  }),
};

await ready(); // the snapshots that are drawn cannot wait for the engine's module; calls can

const form = document.querySelector("#form");
const chart = new Chart(document.querySelector("#chart"), SERIES);
document.querySelector("#legend").append(
  ...Object.values(SERIES).map(({ colour, label }) => {
    const item = document.createElement("li");
    item.textContent = label;
    item.style.setProperty("--colour", colour);
    return item;
  }),
);

let good = 0;
let refused = 0;

async function call(some) {
  try {
    // From the network each time: for its cache a browser asks for one address once at a time.
    const response = await some.fetch("/work", { cache: "no-store", tidegate: { route: ROUTE } });
    await response.text();
    if (response.ok) good += 1;
    else refused += 1;
  } catch {
    refused += 1; // refused by us, or out of time: both are counted
  }
}

function settings() {
  const { load, kind, workers, errors } = Object.fromEntries(new FormData(form));
  return { load: Number(load), kind, workers: Number(workers), errorRate: Number(errors) / 100 };
}

async function tellOrigin() {
  for (const output of form.querySelectorAll("output")) output.value = output.previousElementSibling.value;
  const { workers, errorRate } = settings();
  await fetch("/origin", { method: "POST", body: JSON.stringify({ workers, errorRate }) });
}

/** Starts as many calls as are due by now. */
let due = 0;
let before = performance.now();
setInterval(() => {
  const now = performance.now();
  const { load, kind } = settings();
  due = Math.min(due + ((now - before) / 1000) * load, load);
  before = now;
  for (; due >= 1; due -= 1) void call(policies[kind]);
}, 10);

let attemptsBefore = 0;
let told = performance.now();
const began = told;
setInterval(() => {
  const now = performance.now();
  const seconds = (now - told) / 1000;
  told = now;
  const { kind } = settings();
  const { policies: counts, routes, live } = engine.snapshot();
  const attempts = Object.values(counts).reduce((sum, of) => sum + of.attempts, 0);
  const { pool } = routes.find(({ policy, key }) => policy === kind && key === ROUTE) ?? {};
  chart.add({
    t: (now - began) / 1000,
    goodput: good / seconds,
    attempts: (attempts - attemptsBefore) / seconds,
    limit: pool ? pool.limit * SCALE : undefined,
  });
  document.querySelector("#now").textContent =
    `${good} answers, ${refused} calls without one, ${attempts - attemptsBefore} attempts in the last half second; ${live} calls in flight`;
  attemptsBefore = attempts;
  good = 0;
  refused = 0;
}, EVERY_MS);

form.addEventListener("input", tellOrigin);
await tellOrigin();
globalThis.chart = chart; // for the test
