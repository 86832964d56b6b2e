// The page asks the reaper every two seconds and shows what it says. All text goes in
// by textContent: names and owners may be any text.
import { ago, byId, clock, count, el, keyed, noun, put, span } from "./dom.js";
import { charts, facts, leaderName, policies, shards } from "./below.js";
import { detail, old, row } from "./rows.js";

const every = 2000;
const patience = 12; // seconds; the reaper itself gives up after ten, and says why
const rows = 100;
const view = { q: "", root: "", policy: "", state: "", sort: "policy", page: 0 };
let open = ""; // root and name of the lock whose queue is shown
let last = null; // the last answers, and when they came
let failing = null; // when the first request was made of those without an answer
let paused = false;
let timer = 0;

// ask fetches JSON. Its errors say what failed in plain words.
async function ask(path) {
  const host = location.host;
  let answer, body;
  try {
    answer = await fetch(path, { signal: AbortSignal.timeout(patience * 1000), cache: "no-store" });
    body = await answer.json();
  } catch (error) {
    if (error.name === "TimeoutError") throw new Error(`${host} did not answer within ${patience} s`);
    if (error.name === "SyntaxError") throw new Error(`${host} answered ${answer.status} ${answer.statusText}, but not as a reaper does: is there a proxy in between?`);
    throw new Error(`${host} cannot be reached: the reaper has stopped, or the network is down`);
  }
  if (!answer.ok) throw new Error(body.error || `${host} answered ${answer.status} ${answer.statusText}`);
  return body;
}

// locksPath is what is asked for the table.
function locksPath() {
  const query = new URLSearchParams();
  for (const key of ["q", "root", "policy", "state", "sort"]) if (view[key]) query.set(key, view[key]);
  query.set("offset", view.page * rows);
  query.set("limit", rows);
  return "api/v1/locks?" + query;
}

let turn = 0;
// refresh asks for all that is shown. Of several at once only the last one counts.
async function refresh() {
  clearTimeout(timer);
  const mine = ++turn, began = Date.now();
  let soon = every;
  try {
    const [status, locks] = await Promise.all([ask("api/v1/status"), ask(locksPath())]);
    if (mine !== turn) return;
    last = { status, locks, at: performance.now() };
    failing = null;
    if (view.page > 0 && locks.matching <= view.page * rows) view.page = Math.max(0, Math.ceil(locks.matching / rows) - 1), (soon = 0);
    else if (!locks.complete && !locks.error) soon = 300;
    show();
    if (open) await showDetail();
  } catch (error) {
    if (mine !== turn) return;
    failing ??= began;
    showFailure(error);
  }
  if (mine === turn && !paused && !document.hidden) timer = setTimeout(refresh, soon);
}

function show() {
  const { status, locks } = last;
  document.body.classList.remove("silent");
  verdict(status, locks);
  tiles(status, locks);
  choices(status, locks);
  table(status, locks);
  charts(byId("charts"), status);
  policies(byId("policy-table").tBodies[0], status);
  shards(byId("sharing"), status);
  facts(byId("healths"), status);
  put(byId("roots"), status.roots.map((r) => `${r.name ? r.name + " " : ""}${r.root} on ${(r.servers || []).join(", ")}`).join("; "));
  if (!document.body.dataset.ready) performance.mark("ready");
  document.body.dataset.ready = "yes";
  tick();
}

function showFailure(error) {
  byId("verdict").dataset.level = "bad";
  document.body.classList.add("silent");
  put(byId("headline"), `No data from the reaper since ${clock(failing)}`);
  keyed(byId("problems"), [["failure", error.message]], () => el("li"), (li, text) => { li.dataset.level = "bad"; put(li, text); });
  document.title = "\u2716 Holdfast reaper";
  tick();
}

// verdict shows first what an operator on call needs.
function verdict(status, locks) {
  const several = status.roots.length > 1;
  const found = status.problems.map((p) => ({ level: p.level, text: several ? `${p.root}: ${p.text}` : p.text, shows: p.lock && { q: p.lock, root: several ? p.root : "" } }));
  const blocked = locks.counts.reduce((n, c) => n + c.blocked, 0);
  if (blocked) found.push({ level: "warn", text: `${count(blocked, "lock")} blocked by an expired or damaged entry, with others waiting${asOf(locks)}`, shows: { state: "blocked" } });
  if (locks.error) found.push({ level: "warn", text: `the locks cannot be read: ${locks.error}` });
  const level = found.some((p) => p.level === "bad") ? "bad" : found.length ? "warn" : "ok";
  byId("verdict").dataset.level = level;
  const standby = status.roots.length > 0 && status.roots.every((r) => r.state === "standby");
  const unseen = status.roots.filter((r) => !r.locks_seen && !locks.counts.some((c) => c.root === r.label)).map((r) => r.root);
  const down = status.roots.filter((r) => !r.session.connected).map((r) => r.root); // another reaper may have a session
  const leaders = status.roots.map((r) => r.leader).filter(Boolean);
  const others = leaders.map((l) => `${leaderName(l)} is active and ${l.swept ? `swept ${ago(l.swept_seconds_ago * 1000)} ago` : "has not finished a sweep yet"}`);
  const good = unseen.length && locks.complete ? `No lock was seen below ${unseen.join(", ")} so far` : !standby ? "All is well" : others.length ? `All is well: standing by; ${others.join("; ")}` : "Standing by; which reaper is active is not known yet";
  if (level === "ok" && (unseen.length || (standby && !others.length))) byId("verdict").dataset.level = "none";
  put(byId("headline"), level === "ok" ? good : level === "warn" ? `${count(found.length, "thing")} to look at` : status.roots.some((r) => r.schedules.some((p) => p.overdue)) ? "Locks are not being cleaned up" : `No session with ZooKeeper: this reaper cleans up nothing${down.length < status.roots.length ? ` below ${down.join(", ")}` : ""}`);
  keyed(byId("problems"), found.map((p) => [p.text, p]), () => el("li"), (li, p) => {
    li.dataset.level = p.level;
    if (li.firstChild) return;
    li.append(span(p.text));
    if (p.shows) {
      const show = el("button", "Show");
      show.type = "button";
      show.onclick = () => { Object.assign(view, { q: "", root: "", policy: "", state: "" }, p.shows); change(); byId("locks").focus(); };
      li.append(show);
    }
  });
  document.title = (level === "bad" ? "\u2716 " : level === "warn" ? "! " : "") + "Holdfast reaper";
}

// asOf dates what was read a while ago, "" for what was not.
const asOf = (locks) => (locks.age_ms > old ? `, as of ${readAt(locks.age_ms)}` : "");
// known is false until a lock was read, or a whole pass has found none.
const known = (locks) => locks.complete || locks.counts.length > 0;
const readAt = (age) => clock(Math.round((Date.now() - age) / 1000) * 1000);

function tiles(status, locks) {
  const sum = (key) => locks.counts.reduce((n, c) => n + c[key], 0);
  const total = (key) => (known(locks) ? sum(key).toLocaleString("en") + (locks.truncated || !locks.complete ? "+" : "") : "\u2013");
  const plans = status.roots.flatMap((r) => r.schedules);
  const times = (key, pick) => { const t = plans.map((p) => p[key]).filter(Boolean).map(Date.parse); return t.length ? pick(...t) : 0; };
  const now = Date.parse(status.now), next = times("next", Math.min);
  const ended = status.roots.flatMap((r) => r.reports).filter((r) => r.complete && !r.skipped && !r.dry_run).map((r) => Date.parse(r.started));
  const told = status.roots.map((r) => r.leader).filter((l) => l?.swept).map((l) => now - l.swept_seconds_ago * 1000);
  const swept = Math.max(times("last", Math.max), ...ended, ...told);
  const overdue = Math.max(0, ...plans.filter((p) => p.overdue).map((p) => p.late_seconds));
  const running = plans.filter((p) => p.running).length;
  const down = status.roots.filter((r) => !r.session.connected);
  const losses = status.roots.reduce((n, r) => n + r.session.losses, 0);
  const since = Math.max(...status.roots.map((r) => Date.parse(r.session.since)));
  const states = [...new Set(status.roots.map((r) => r.state))];
  const windows = status.roots.filter((r) => r.clock.known).map((r) => r.clock.window_seconds);
  const leader = status.roots.map((r) => r.leader).find((l) => l && !l.self);
  const late = status.roots.some((r) => r.leader?.late);
  const stale = locks.age_ms > old ? "stale" : "";
  const dated = (note) => (!known(locks) ? "not known" : stale ? asOf(locks).slice(2) : note);
  const all = [
    ["Role", states.join(", ").replace("disconnected", "no session"), states.includes("standby") && leader ? `active: ${leaderName(leader)}` : `for ${ago(now - Math.max(...status.roots.map((r) => Date.parse(r.since))))}`, states.includes("disconnected") ? "bad" : late ? "warn" : ""],
    ["Session", down.length ? "lost" : "up", `for ${ago(now - since)}${losses ? `, lost ${losses}\u00d7` : ""}`, down.length ? "bad" : ""],
    overdue ? ["Sweeps", "overdue", `by ${ago(overdue * 1000)}`, "bad"] :
    ["Last sweep", swept ? `${ago(now - swept)} ago` : "none yet", running ? "one is under way" : down.length ? "no session" : next ? (next > now ? `next in ${ago(next - now)}` : "the next is due") : states.includes("standby") ? "another reaper sweeps" : "none is due"],
    ["Locks", total("locks"), dated(count(status.roots.reduce((n, r) => n + r.policies.length, 0), "policy", "policies")), stale],
    ["Held", total("held"), dated(noun(sum("held"), "entry", "entries")), stale],
    ["Waiting", total("waiting"), dated(noun(sum("waiting"), "entry", "entries")), stale],
    ["Blocked", total("blocked"), dated(noun(sum("blocked"), "lock")), stale || (sum("blocked") ? "warn" : "")],
    ["Leader's clock", windows.length ? `\u00b1${ago(500 * Math.max(...windows))}` : "unknown", `epoch ${status.roots.map((r) => (r.clock.known ? r.clock.epoch : "?")).join(", ")}`],
  ];
  keyed(byId("tiles"), all.map((t) => [t[0], t]), () => { const d = el("div"); d.append(el("dt"), el("dd"), el("dd")); return d; }, (d, [title, value, note, level]) => {
    d.dataset.level = level || "";
    put(d.children[0], title); put(d.children[1], value); put(d.children[2], note);
    d.children[2].title = note;
  });
}

// choices fills in the policies and roots that there are, and what was chosen.
function choices(status, locks) {
  const names = new Set([...status.roots.flatMap((r) => r.policies.map((p) => p.name)), ...locks.counts.map((c) => c.policy), ...(view.policy ? [view.policy] : [])]);
  options(byId("policy"), [...names], view.policy);
  options(byId("root"), status.roots.map((r) => r.label), view.root);
  byId("root-choice").hidden = status.roots.length < 2;
  byId("state").value = view.state;
  byId("sort").value = view.sort;
  if (document.activeElement !== byId("search")) byId("search").value = view.q;
}

function options(select, names, chosen) {
  if (document.activeElement === select && select.options.length === names.length + 1) return;
  keyed(select, [["", "all"], ...names.map((n) => [n, n])], (value) => { const o = el("option"); o.value = value; return o; }, put);
  select.value = chosen;
}

function table(status, locks) {
  const several = status.roots.length > 1;
  const list = [];
  let group = null;
  for (const l of locks.locks) {
    const in_ = several ? `${l.root} ${l.policy}` : l.policy;
    if (view.sort === "policy" && in_ !== group) {
      group = in_;
      list.push(["group " + in_, { group: in_, counts: locks.counts.find((c) => c.root === l.root && c.policy === l.policy), policy: status.roots.find((r) => r.label === l.root)?.policies.find((p) => p.name === l.policy) }]);
    }
    const key = keyOf(l);
    list.push([key, { lock: l, several, at: last.at, open: key === open }]);
    if (key === open) list.push(["detail", { detail: true }]);
  }
  const body = byId("table").tBodies[0];
  keyed(body, list, (key, what) => row(what, () => toggle(key)), (tr, what) => tr.update(what));
  const filtered = view.q || view.policy || view.state || view.root;
  byId("table").hidden = locks.locks.length === 0;
  byId("none").hidden = locks.locks.length > 0;
  put(byId("none"), !locks.complete ? (locks.error ? "The locks are not known." : "Reading the locks") : filtered ? "No lock matches." : "There are no locks.");
  const notes = [];
  if (locks.truncated) notes.push("There are more locks than are read for this page. A lock that is not listed is found by its whole name, with Enter.");
  else if (!locks.complete && !locks.error) notes.push("The locks are still being read.");
  byId("note").hidden = notes.length === 0;
  put(byId("note"), notes.join(" "));
  const pages = Math.ceil(locks.matching / rows);
  byId("pager").hidden = pages < 2;
  byId("previous").disabled = view.page === 0;
  byId("next").disabled = view.page >= pages - 1;
  put(byId("range"), `${(locks.offset + 1).toLocaleString("en")}\u2013${(locks.offset + locks.locks.length).toLocaleString("en")} of ${locks.matching.toLocaleString("en")}`);
}

// keyOf tells a lock from all others: a root's name can have a space, but no line break.
const keyOf = (lock) => `${lock.root}\n${lock.name}`;

// toggle shows the queue of a lock, or hides it.
function toggle(key) {
  open = open === key ? "" : key;
  show();
  if (open) showDetail();
}

async function showDetail() {
  const key = open;
  const [root, name] = key.split("\n");
  const cell = byId("table").querySelector("tr.detail td");
  if (!cell) return;
  try {
    const lock = await ask("api/v1/lock?" + new URLSearchParams({ root, name }));
    if (key === open) detail(cell, lock);
  } catch (error) {
    if (key === open) cell.replaceChildren(span(error.message));
  }
}

// tick lets the bars run and the ages grow between two answers.
function tick() {
  if (last) {
    for (const tr of byId("table").tBodies[0].rows) tr.tick?.(performance.now());
    const age = performance.now() - last.at + last.locks.age_ms;
    put(byId("updated"), paused ? "paused" : failing ? `no data for ${ago(Date.now() - failing)}` : known(last.locks) ? `locks read ${ago(age)} ago` : "locks not read yet");
    byId("stale").hidden = age <= old || last.locks.locks.length === 0;
    put(byId("stale"), `The locks are shown as they were at ${readAt(age)}, ${ago(age)} ago. What has changed since is not known.`);
  }
}
setInterval(tick, matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 200);

// change is called when something else is to be shown. It stands in the address, so that
// it can be sent to others.
function change(page = 0) {
  view.page = page;
  const kept = new URLSearchParams();
  for (const key of Object.keys(view)) if (view[key] && !(key === "sort" && view.sort === "policy")) kept.set(key, view[key]);
  history.replaceState(null, "", "#" + kept);
  refresh();
}

function fromAddress() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const key of ["q", "root", "policy", "state"]) view[key] = kept.get(key) || "";
  if (![...byId("state").options].some((o) => o.value === view.state)) view.state = "";
  view.sort = ["policy", "name", "queue", "left"].includes(kept.get("sort")) ? kept.get("sort") : "policy";
  view.page = Math.max(0, parseInt(kept.get("page"), 10) || 0);
}

let typing = 0;
byId("search").addEventListener("input", (e) => {
  view.q = e.target.value;
  clearTimeout(typing);
  typing = setTimeout(change, 120);
});
byId("search").addEventListener("keydown", async (e) => {
  if (e.key === "Escape") { e.target.value = view.q = ""; change(); }
  if (e.key !== "Enter" || !view.q || last?.locks.matching > 0) return;
  try { // not listed, but perhaps there
    const lock = await ask("api/v1/lock?" + new URLSearchParams({ name: view.q }));
    last.locks.locks = [lock];
    last.locks.matching = 1;
    open = keyOf(lock);
    clearTimeout(timer);
    show();
    detail(byId("table").querySelector("tr.detail td"), lock);
  } catch (error) {
    put(byId("none"), error.message);
  }
});
for (const id of ["root", "policy", "state", "sort"]) byId(id).addEventListener("change", (e) => { view[id] = e.target.value; change(); });
byId("previous").addEventListener("click", () => change(view.page - 1));
byId("next").addEventListener("click", () => change(view.page + 1));
byId("pause").addEventListener("click", (e) => {
  paused = !paused;
  e.target.setAttribute("aria-pressed", paused);
  put(e.target, paused ? "Go on" : "Pause");
  paused ? clearTimeout(timer) : refresh();
  tick();
});
document.addEventListener("keydown", (e) => {
  const typed = e.target.closest?.("input, select");
  if (e.key === "/" && !typed && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); byId("search").focus(); byId("search").select(); }
  if (e.key === "Escape" && !typed && open) { const was = [...byId("table").querySelectorAll("button.open")].find((b) => b.ariaExpanded === "true"); toggle(open); was?.focus(); }
  if ((e.key === "ArrowDown" || e.key === "ArrowUp") && e.target.matches?.("button.open")) {
    const all = [...byId("table").querySelectorAll("button.open")];
    const to = all[all.indexOf(e.target) + (e.key === "ArrowDown" ? 1 : -1)];
    if (to) { e.preventDefault(); to.focus(); }
  }
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) refresh(); });
addEventListener("hashchange", () => { fromAddress(); refresh(); });
fromAddress();
refresh();
