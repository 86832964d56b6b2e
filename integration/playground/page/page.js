// Shows what the program tells, and tells it what was clicked on. A reset is a new program.
const $ = (id) => document.getElementById(id);
const element = (tag, text = "", data = {}) => {
  const e = document.createElement(tag);
  e.textContent = text;
  Object.assign(e.dataset, data);
  return e;
};
const seconds = (s) => `${s.toFixed(1)} s`;

let program, sections;

function start(tour) {
  program?.terminate();
  $("sides").replaceChildren();
  sections = new Map();
  program = new Worker("worker.js");
  program.onmessage = (message) => {
    show(JSON.parse(message.data));
    if (tour) program.postMessage("tour"); // not before: it would not be heard
    tour = false;
  };
}

// section is the part of the page that is a side's, made when it is first shown.
function section(name) {
  if (!sections.has(name)) {
    const made = $("side").content.firstElementChild.cloneNode(true);
    made.dataset.side = name;
    made.querySelector("h2").textContent = name;
    made.querySelector(".log").setAttribute("aria-label", `What happened to ${name}`);
    $("sides").append(made);
    sections.set(name, { made, logged: 0 });
  }
  return sections.get(name);
}

function show(state) {
  $("time").textContent = seconds(state.time);
  $("leader").textContent = state.leader || "none now";
  $("clock").textContent = state.clock || "—";
  const { stop, of, say, done } = state.tour;
  const caption = stop ? (done ? say : `${stop} of ${of}. ${say}`) : "";
  if ($("tour").textContent !== caption) $("tour").textContent = caption;
  $("tour").hidden = !caption;
  document.querySelector("[data-do=tour]").disabled = stop > 0 && !done;
  document.body.dataset.tour = stop === 0 ? "" : done ? "done" : "on";
  for (const side of state.sides) showSide(side, state.log);
}

function showSide(side, log) {
  const shown = section(side.name);
  const part = (selector) => shown.made.querySelector(selector);
  const two = side.inside > 1;
  shown.made.dataset.inside = side.inside;
  shown.made.dataset.overlaps = side.overlaps;
  part(".verdict b").textContent = `counter ${side.counter}`;
  part(".verdict span").textContent = two ? "Two inside at once" : side.inside === 1 ? "One inside" : "None inside";
  const times = side.overlaps === 1 ? "once" : `${side.overlaps} times`;
  part(".count").textContent = `${side.overlaps ? `two inside ${times}, for ${seconds(side.overlap)}` : "never two inside"}; ${side.added - side.counter} of ${side.added} additions lost`;
  part(".workers").replaceChildren(...side.workers.map(workerRow));
  part(".nodes").replaceChildren(...side.nodes.map(nodeRow));
  for (const line of log) {
    if (line.number <= shown.logged || (line.side && line.side !== side.name)) continue;
    shown.logged = line.number;
    const row = element("li", "", { level: line.level });
    row.append(element("time", seconds(line.time)), element("span", line.text));
    part(".log").prepend(row);
    if (part(".log").childElementCount > 60) part(".log").lastElementChild.remove();
  }
}

function workerRow(worker) {
  const row = element("li", "", { inside: worker.inside, state: worker.state });
  const work = document.createElement("progress");
  work.value = worker.done;
  work.setAttribute("aria-label", `work of ${worker.name}`);
  const details = [worker.inside ? "inside" : worker.state];
  if (worker.token) details.push(`token ${worker.token}`);
  if (worker.lease > 0) details.push(`lease ${seconds(worker.lease)}`);
  if (worker.inside && worker.state !== "works") details[0] += `, ${worker.state.replace("works, ", "")}`;
  row.append(element("b", worker.name), element("span", details.join(" · ")), work);
  return row;
}

function nodeRow(node) {
  const row = element("li");
  row.append(element("code", node.name.replace(/^.+-lock-/, "…-lock-")), element("span", [node.owner, node.kind].filter(Boolean).join(" · ")));
  row.firstChild.title = node.name;
  return row;
}

for (const button of document.querySelectorAll("button")) {
  button.addEventListener("click", () => {
    $("pressed").textContent = `${button.textContent}: ${button.title}.`; // a touch screen shows no titles
    if (button.dataset.do) program.postMessage(button.dataset.do);
    else start(false);
  });
}
start(true);
